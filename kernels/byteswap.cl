// Neighbouring bytes are exchanged, then neighbouring pairs, then neighbouring fours, as far as a component reaches: shifts and
// masks work on one component and on a vector alike, and compilers know them as a byte swap.
#define TANDEM_EXCHANGE(x, bits, mask) x = ((x >> bits) & (tandem_one)mask) | ((x & (tandem_one)mask) << bits)
#if TANDEM_COMPONENT_BYTES == 1
#define TANDEM_REVERSE(x) x = TANDEM_PROPER(x)
#elif TANDEM_COMPONENT_BYTES == 2
#define TANDEM_REVERSE(x) TANDEM_EXCHANGE(x, 8, 0x00ff)
#elif TANDEM_COMPONENT_BYTES == 4
#define TANDEM_REVERSE(x)              \
    TANDEM_EXCHANGE(x, 8, 0x00ff00ff); \
    TANDEM_EXCHANGE(x, 16, 0x0000ffff)
#else
#define TANDEM_REVERSE(x)                        \
    TANDEM_EXCHANGE(x, 8, 0x00ff00ff00ff00ffUL); \
    TANDEM_EXCHANGE(x, 16, 0x0000ffff0000ffffUL);\
    TANDEM_EXCHANGE(x, 32, 0x00000000ffffffffUL)
#endif

static inline tandem_one tandem_reversed_one(tandem_one x) {
    TANDEM_REVERSE(x);
    return x;
}
static inline tandem_pack tandem_reversed_pack(tandem_pack x) {
    TANDEM_REVERSE(x);
    return x;
}
#define BYTESWAP(n, in) tandem_reversed_##n(in)
TANDEM_DEFINE_UNARY(BYTESWAP)
