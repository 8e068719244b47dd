static inline tandem_one tandem_twice_one(tandem_one in) {
    return TANDEM_BITS(one, TANDEM_SUM(TANDEM_VALUE(one, in), TANDEM_VALUE(one, in)));
}
static inline tandem_pack tandem_twice_pack(tandem_pack in) {
    return TANDEM_BITS(pack, TANDEM_SUM(TANDEM_VALUE(pack, in), TANDEM_VALUE(pack, in)));
}
#define TWICE(n, in) tandem_twice_##n(in)
TANDEM_DEFINE_UNARY(TWICE)
