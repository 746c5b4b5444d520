"""What a row is made of: field types, and strict JSON to rows."""
