/* JSON objects of simple values to columns, in one pass over their bytes.
 *
 * Only what is plain is taken: fields of simple types in their usual spelling. At the first payload that holds anything
 * else (a nested value, a \u escape, a field twice, a number in quotes, an error) the loop stops and says where, and the
 * caller gives the payloads to the decoder that knows all rules. What is taken is what that decoder makes of it, bit by
 * bit; the tests hold the two against each other.
 *
 * Nothing here allocates, keeps anything, reads outside of a payload, or writes beyond the room that `flat_rows.py` makes.
 */
#define _GNU_SOURCE
#include <float.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

enum { WHOLE, REAL, REAL_32, TRUTH, TEXT, TIMESTAMP, DATE };
enum { MOST_COLUMNS = 64, MOST_NUMBER_BYTES = 63, MOST_DIGITS = 18 };

typedef struct {
    const uint8_t *name;
    int64_t name_size;
    int64_t kind;
    int64_t minimum; /* of WHOLE */
    int64_t maximum;
    void *values;   /* int64 or double a row; TEXT: int32 offsets, one more than rows */
    uint8_t *valid; /* a byte a row, 1 before the call */
    uint8_t *text;  /* TEXT: room for all payloads */
    int64_t nulls;  /* counted up */
    int64_t used;   /* TEXT: bytes of `text` written */
} Column;

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    uint64_t bits; /* of all bytes inside of texts and names, or'ed */
} Reader;

#define HIGH UINT64_C(0x8080808080808080)
#define ONES UINT64_C(0x0101010101010101)

static inline int is_digit(uint8_t c) { return (uint8_t)(c - '0') < 10; }

static inline void skip_blanks(Reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r' || *r->at == '\n')) r->at++;
}

static inline int take(Reader *r, uint8_t c) {
    if (r->at < r->end && *r->at == c) {
        r->at++;
        return 1;
    }
    return 0;
}

static inline int take_word(Reader *r, const char *word, int64_t size) {
    if (r->end - r->at < size || memcmp(r->at, word, (size_t)size) != 0) return 0;
    r->at += size;
    return 1;
}

/* Go to the first quote, backslash or control character. */
static inline void skip_plain(Reader *r) {
    const uint8_t *at = r->at, *end = r->end;
    uint64_t bits = r->bits;
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        uint64_t quote = word ^ (ONES * '"'), slash = word ^ (ONES * '\\');
        /* A byte that is none of them may be marked beside one that is: then the loop below looks byte by byte. */
        if (((quote - ONES) & ~quote) & HIGH || ((slash - ONES) & ~slash) & HIGH || ((word - ONES * 0x20) & ~word) & HIGH)
            break;
        bits |= word;
        at += 8;
    }
    while (at < end && *at != '"' && *at != '\\' && *at >= 0x20) bits |= *at++;
    r->at = at;
    r->bits = bits;
}

static inline int unescaped(uint8_t c) {
    switch (c) {
        case '"': case '\\': case '/': return c;
        case 'b': return '\b';
        case 'f': return '\f';
        case 'n': return '\n';
        case 'r': return '\r';
        case 't': return '\t';
        default: return -1;
    }
}

/* The rest of a text behind its first quote, to `out` if that is given. Returns its bytes, or -1. */
static inline int64_t take_text(Reader *r, uint8_t *out) {
    int64_t size = 0;
    for (;;) {
        const uint8_t *from = r->at;
        skip_plain(r);
        int64_t plain = r->at - from;
        if (out) memcpy(out + size, from, (size_t)plain);
        size += plain;
        if (r->at == r->end || *r->at < 0x20) return -1;
        if (*r->at++ == '"') return size;
        if (r->at == r->end) return -1;
        int c = unescaped(*r->at++);
        if (c < 0) return -1;
        if (out) out[size] = (uint8_t)c;
        size++;
    }
}

/* A name behind its first quote; one with an escape is not taken. */
static inline int take_name(Reader *r, const uint8_t **name, int64_t *size) {
    *name = r->at;
    skip_plain(r);
    *size = r->at - *name;
    return take(r, '"');
}

typedef struct {
    const uint8_t *text;
    int64_t size;
    uint64_t digits; /* all of them as one number, if there are at most MOST_DIGITS */
    int count;
    int64_t exponent; /* of ten, `digits` is to be multiplied with */
    int negative;
    int whole; /* neither point nor exponent */
} Number;

static inline int take_number(Reader *r, Number *n) {
    const uint8_t *at = r->at, *end = r->end;
    n->text = at;
    n->digits = 0;
    n->count = 0;
    n->exponent = 0;
    n->whole = 1;
    n->negative = at < end && *at == '-';
    at += n->negative;
    const uint8_t *first = at;
    for (; at < end && is_digit(*at); at++) {
        if (n->count++ < MOST_DIGITS) n->digits = n->digits * 10 + (*at - '0');
    }
    if (at == first || (*first == '0' && at - first > 1)) return 0;
    if (at < end && *at == '.') {
        n->whole = 0;
        const uint8_t *point = ++at;
        for (; at < end && is_digit(*at); at++) {
            if (n->count++ < MOST_DIGITS) n->digits = n->digits * 10 + (*at - '0');
        }
        if (at == point) return 0;
        n->exponent = -(at - point);
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        n->whole = 0;
        at++;
        int minus = at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) at++;
        const uint8_t *power = at;
        int64_t value = 0;
        for (; at < end && is_digit(*at); at++) {
            if (value < 100000) value = value * 10 + (*at - '0');
        }
        if (at == power) return 0;
        n->exponent += minus ? -value : value;
    }
    n->size = at - n->text;
    r->at = at;
    return 1;
}

static int slow_real(const Number *n, double *value) {
    static locale_t plain = (locale_t)0;
    char text[MOST_NUMBER_BYTES + 1], *stopped;
    if (n->size > MOST_NUMBER_BYTES) return 0;
    if (!plain && !(plain = newlocale(LC_ALL_MASK, "C", (locale_t)0))) return 0;
    memcpy(text, n->text, (size_t)n->size);
    text[n->size] = 0;
    *value = strtod_l(text, &stopped, plain);
    return stopped == text + n->size && *value - *value == 0.0;
}

static inline int real_of(const Number *n, double *value) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (n->whole && n->negative && n->digits == 0) return 0; /* -0 without a point is 0 */
#if FLT_EVAL_METHOD == 0
    /* Both numbers are exact, so their product or quotient is rounded once. */
    if (n->count <= MOST_DIGITS && n->digits <= (UINT64_C(1) << 53) && n->exponent >= -22 && n->exponent <= 22) {
        double made = (double)n->digits;
        made = n->exponent < 0 ? made / powers[-n->exponent] : made * powers[n->exponent];
        *value = n->negative ? -made : made;
        return 1;
    }
#endif
    return slow_real(n, value);
}

static inline int digits_at(const uint8_t *at, int size, int *value) {
    int made = 0;
    for (int i = 0; i < size; i++) {
        if (!is_digit(at[i])) return 0;
        made = made * 10 + (at[i] - '0');
    }
    *value = made;
    return 1;
}

/* Days since 1970-01-01 of YYYY-MM-DD. */
static inline int date_at(const uint8_t *at, int64_t *days) {
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    int year, month, day;
    if (at[4] != '-' || at[7] != '-') return 0;
    if (!digits_at(at, 4, &year) || !digits_at(at + 5, 2, &month) || !digits_at(at + 8, 2, &day)) return 0;
    if (year < 1 || month < 1 || month > 12 || day < 1) return 0;
    int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (day > before[month] - before[month - 1] + (leap && month == 2)) return 0;
    int64_t past = year - 1;
    *days = past * 365 + past / 4 - past / 100 + past / 400 + before[month - 1] + (leap && month > 2) + day - 1 - 719162;
    return 1;
}

/* Microseconds since 1970-01-01T00:00:00 of YYYY-MM-DD HH:MM:SS with a fraction and a Z, or without. */
static inline int timestamp_at(const uint8_t *at, int64_t size, int64_t *us) {
    int64_t days;
    int hour, minute, second, fraction = 0;
    if (size < 19 || !date_at(at, &days) || (at[10] != 'T' && at[10] != ' ') || at[13] != ':' || at[16] != ':') return 0;
    if (!digits_at(at + 11, 2, &hour) || !digits_at(at + 14, 2, &minute) || !digits_at(at + 17, 2, &second)) return 0;
    if (hour > 23 || minute > 59 || second > 59) return 0;
    const uint8_t *rest = at + 19, *end = at + size;
    if (rest < end && *rest == '.') {
        const uint8_t *first = ++rest;
        int scale = 100000;
        for (; rest < end && is_digit(*rest); rest++, scale /= 10) fraction += (*rest - '0') * scale;
        if (rest == first || rest - first > 9) return 0;
    }
    if (rest < end && *rest == 'Z') rest++;
    if (rest != end) return 0;
    *us = ((days * 24 + hour) * 60 + minute) * 60 + second;
    *us = *us * 1000000 + fraction;
    return 1;
}

static inline void put_null(Column *c, int64_t row) {
    c->valid[row] = 0;
    c->nulls++;
    if (c->kind == TEXT) ((int32_t *)c->values)[row + 1] = (int32_t)c->used;
    else ((int64_t *)c->values)[row] = 0;
}

static inline int take_value(Reader *r, Column *c, int64_t row) {
    if (r->at == r->end) return 0;
    if (*r->at == 'n') {
        if (!take_word(r, "null", 4)) return 0;
        put_null(c, row);
        return 1;
    }
    Number number;
    switch (c->kind) {
        case TEXT: {
            if (!take(r, '"')) return 0;
            int64_t size = take_text(r, c->text + c->used);
            if (size < 0) return 0;
            c->used += size;
            ((int32_t *)c->values)[row + 1] = (int32_t)c->used;
            return 1;
        }
        case WHOLE: {
            if (!take_number(r, &number) || !number.whole || number.count > MOST_DIGITS) return 0;
            int64_t value = number.negative ? -(int64_t)number.digits : (int64_t)number.digits;
            if (value < c->minimum || value > c->maximum) return 0;
            ((int64_t *)c->values)[row] = value;
            return 1;
        }
        case REAL:
        case REAL_32: {
            double value;
            if (!take_number(r, &number) || !real_of(&number, &value)) return 0;
            if (c->kind == REAL_32 && !(value > -3.4028235677973366e38 && value < 3.4028235677973366e38)) return 0;
            ((double *)c->values)[row] = value;
            return 1;
        }
        case TRUTH: {
            int is_true = *r->at == 't';
            if (!(is_true ? take_word(r, "true", 4) : take_word(r, "false", 5))) return 0;
            ((int64_t *)c->values)[row] = is_true;
            return 1;
        }
        default: {
            const uint8_t *text;
            int64_t size, value;
            if (!take(r, '"') || !take_name(r, &text, &size)) return 0;
            if (c->kind == DATE ? (size != 10 || !date_at(text, &value)) : !timestamp_at(text, size, &value)) return 0;
            ((int64_t *)c->values)[row] = value;
            return 1;
        }
    }
}

/* A simple value of a field that is not among the columns. */
static inline int skip_value(Reader *r) {
    Number number;
    if (r->at == r->end) return 0;
    switch (*r->at) {
        case '"': r->at++; return take_text(r, NULL) >= 0;
        case 't': return take_word(r, "true", 4);
        case 'f': return take_word(r, "false", 5);
        case 'n': return take_word(r, "null", 4);
        default: return take_number(r, &number);
    }
}

static inline int take_row(Reader *r, Column *columns, int64_t width, int64_t row) {
    uint64_t seen = 0, all = width == MOST_COLUMNS ? ~UINT64_C(0) : (UINT64_C(1) << width) - 1;
    int64_t next = 0; /* the column that follows the last one */
    skip_blanks(r);
    if (!take(r, '{')) return 0;
    skip_blanks(r);
    if (!take(r, '}')) {
        for (;;) {
            const uint8_t *name;
            int64_t size, column = next;
            if (!take(r, '"') || !take_name(r, &name, &size)) return 0;
            skip_blanks(r);
            if (!take(r, ':')) return 0;
            skip_blanks(r);
            for (int64_t tries = 0; tries < width; tries++, column++) {
                if (column == width) column = 0;
                if (columns[column].name_size == size && memcmp(columns[column].name, name, (size_t)size) == 0) goto found;
            }
            if (!skip_value(r)) return 0;
            goto behind;
        found:
            if (seen >> column & 1) return 0;
            seen |= UINT64_C(1) << column;
            if (!take_value(r, &columns[column], row)) return 0;
            next = column + 1 == width ? 0 : column + 1;
        behind:
            skip_blanks(r);
            if (take(r, '}')) break;
            if (!take(r, ',')) return 0;
            skip_blanks(r);
        }
    }
    skip_blanks(r);
    if (r->at != r->end) return 0;
    for (uint64_t missing = all & ~seen; missing; missing &= missing - 1) {
        int64_t column = 0;
        while (!(missing >> column & 1)) column++;
        put_null(&columns[column], row);
    }
    return 1;
}

/* Read the payloads data[starts[i]..ends[i]) into `width` columns, at most 64.
 *
 * ascii: set to whether no byte is above 127; if not, the caller has to see that all is UTF-8.
 * Returns `count`, or the first payload that is not plain: then the columns hold nothing of use.
 */
int64_t edgesocket_flat_rows(const uint8_t *data, const int64_t *starts, const int64_t *ends, int64_t count,
                             Column *columns, int64_t width, int64_t *ascii) {
    Reader reader = {NULL, NULL, 0};
    if (width < 1 || width > MOST_COLUMNS) return 0;
    int64_t row = 0;
    for (; row < count; row++) {
        reader.at = data + starts[row];
        reader.end = data + ends[row];
        if (!take_row(&reader, columns, width, row)) break;
    }
    *ascii = !(reader.bits & HIGH);
    return row;
}
