"""Where an agent's records come from: one module an input, `contract` says what each of them does."""
