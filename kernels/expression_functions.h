// What the operations of expressions mean: one text for OpenCL C 1.2, CUDA C++ and C++, so that every backend computes the same.
//
// Whoever takes it in defines first: the types b1 (an unsigned char that is 0 or 1), i8 to i64, u8 to u64, f32, and where used f64,
// c64 and c128 (structs of x and y); TD_FN, what a function's declaration starts with; TD_MATH_f32(name) and TD_MATH_f64(name), the
// name of a mathematical function for that type; TD_F32_BITS(x) and TD_BITS_F32(x), the bits of a float as u32 and back;
// TD_ROUNDED(x), a product that no compiler makes part of a fused multiply-add. Then TD_TYPE_t for each type t in use (c64 needs
// f32, c128 needs f64), and one of the macros at the end for each conversion.
//
// Functions are named td_OPERATION_TYPE. Integers wrap modulo 2^n; what else NumPy defines holds as NumPy has it.
//
// clang-format off: it counts each macro's backslashes by those of its neighbours

#define TD_COMPARE_EQUALITY(T)                             \
    TD_FN b1 td_eq_##T(T a, T b) { return (b1)(a == b); } \
    TD_FN b1 td_ne_##T(T a, T b) { return (b1)(a != b); }
#define TD_COMPARE(T)                                      \
    TD_COMPARE_EQUALITY(T)                                 \
    TD_FN b1 td_lt_##T(T a, T b) { return (b1)(a < b); }  \
    TD_FN b1 td_le_##T(T a, T b) { return (b1)(a <= b); } \
    TD_FN b1 td_gt_##T(T a, T b) { return (b1)(a > b); }  \
    TD_FN b1 td_ge_##T(T a, T b) { return (b1)(a >= b); }
#define TD_WHERE(T) \
    TD_FN T td_where_##T(b1 c, T a, T b) { return c ? a : b; }

// W is unsigned and at least as wide as int, so that nothing overflows. A shift by the width or more, or by a negative count, moves
// every bit out.
#define TD_INTEGER(T, U, W, BITS)                                                               \
    TD_COMPARE(T)                                                                               \
    TD_WHERE(T)                                                                                 \
    TD_FN T td_add_##T(T a, T b) { return (T)((W)a + (W)b); }                                   \
    TD_FN T td_sub_##T(T a, T b) { return (T)((W)a - (W)b); }                                   \
    TD_FN T td_mul_##T(T a, T b) { return (T)((W)a * (W)b); }                                   \
    TD_FN T td_neg_##T(T a) { return (T)((W)0 - (W)a); }                                        \
    TD_FN T td_min_##T(T a, T b) { return a < b ? a : b; }                                      \
    TD_FN T td_max_##T(T a, T b) { return a > b ? a : b; }                                      \
    TD_FN T td_and_##T(T a, T b) { return (T)(a & b); }                                         \
    TD_FN T td_or_##T(T a, T b) { return (T)(a | b); }                                          \
    TD_FN T td_xor_##T(T a, T b) { return (T)(a ^ b); }                                         \
    TD_FN T td_not_##T(T a) { return (T)~a; }                                                   \
    TD_FN T td_shl_##T(T a, T b) { return (U)b < (U)BITS ? (T)((W)a << (W)(U)b) : (T)0; }       \
    TD_FN T td_powers_##T(T a, U n) {                                                           \
        W result = 1;                                                                           \
        W square = (W)a;                                                                        \
        for (; n != 0; n = (U)(n >> 1)) {                                                       \
            if ((n & 1) != 0) result = (W)(result * square);                                    \
            square = (W)(square * square);                                                      \
        }                                                                                       \
        return (T)result;                                                                       \
    }

// Division rounds down, the remainder has the divisor's sign, and both are 0 where the divisor is. A negative power of an integer
// is what is left of the true value without its fraction.
#define TD_SIGNED(T, U, W, BITS)                                                                    \
    TD_INTEGER(T, U, W, BITS)                                                                       \
    TD_FN T td_abs_##T(T a) { return a < 0 ? td_neg_##T(a) : a; }                                   \
    TD_FN T td_shr_##T(T a, T b) { return (U)b < (U)BITS ? (T)(a >> b) : (T)(a < 0 ? -1 : 0); }     \
    TD_FN T td_floordiv_##T(T a, T b) {                                                             \
        const T divisor = (b == 0 || b == -1) ? (T)1 : b; /* the lowest over -1 overflows */        \
        const T quotient = (T)(a / divisor);                                                        \
        const T down = (T)((a % divisor != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient);     \
        return b == 0 ? (T)0 : b == -1 ? td_neg_##T(a) : down;                                      \
    }                                                                                               \
    TD_FN T td_mod_##T(T a, T b) {                                                                  \
        const T divisor = (b == 0 || b == -1) ? (T)1 : b;                                           \
        const T rest = (T)(a % divisor);                                                            \
        return (T)((rest != 0 && (rest < 0) != (b < 0)) ? rest + b : rest);                         \
    }                                                                                               \
    TD_FN T td_pow_##T(T a, T b) {                                                                  \
        if (b < 0) return a == 1 ? (T)1 : a == -1 ? (T)((b & 1) != 0 ? -1 : 1) : (T)0;              \
        return td_powers_##T(a, (U)b);                                                              \
    }
#define TD_UNSIGNED(T, U, W, BITS)                                                         \
    TD_INTEGER(T, U, W, BITS)                                                              \
    TD_FN T td_abs_##T(T a) { return a; }                                                  \
    TD_FN T td_shr_##T(T a, T b) { return b < (U)BITS ? (T)(a >> b) : (T)0; }              \
    TD_FN T td_floordiv_##T(T a, T b) { return b == 0 ? (T)0 : (T)(a / (b == 0 ? 1 : b)); } \
    TD_FN T td_mod_##T(T a, T b) { return b == 0 ? (T)0 : (T)(a % (b == 0 ? 1 : b)); }     \
    TD_FN T td_pow_##T(T a, T b) { return td_powers_##T(a, b); }

#define TD_TYPE_b1                                                    \
    TD_COMPARE(b1)                                                    \
    TD_WHERE(b1)                                                      \
    TD_FN b1 td_add_b1(b1 a, b1 b) { return (b1)(a | b); }            \
    TD_FN b1 td_mul_b1(b1 a, b1 b) { return (b1)(a & b); }            \
    TD_FN b1 td_min_b1(b1 a, b1 b) { return (b1)(a & b); }            \
    TD_FN b1 td_max_b1(b1 a, b1 b) { return (b1)(a | b); }            \
    TD_FN b1 td_and_b1(b1 a, b1 b) { return (b1)(a & b); }            \
    TD_FN b1 td_or_b1(b1 a, b1 b) { return (b1)(a | b); }             \
    TD_FN b1 td_xor_b1(b1 a, b1 b) { return (b1)(a ^ b); }            \
    TD_FN b1 td_not_b1(b1 a) { return (b1)(a ^ 1); }
#define TD_TYPE_i8 TD_SIGNED(i8, u8, u32, 8)
#define TD_TYPE_i16 TD_SIGNED(i16, u16, u32, 16)
#define TD_TYPE_i32 TD_SIGNED(i32, u32, u32, 32)
#define TD_TYPE_i64 TD_SIGNED(i64, u64, u64, 64)
#define TD_TYPE_u8 TD_UNSIGNED(u8, u8, u32, 8)
#define TD_TYPE_u16 TD_UNSIGNED(u16, u16, u32, 16)
#define TD_TYPE_u32 TD_UNSIGNED(u32, u32, u32, 32)
#define TD_TYPE_u64 TD_UNSIGNED(u64, u64, u64, 64)

// Quotient and remainder as NumPy forms them (npy_divmod): the remainder is exact before the divisor's sign is given to it, and the
// quotient is the whole number next to what is left.
#define TD_FLOAT(T)                                                                                  \
    TD_COMPARE(T)                                                                                    \
    TD_WHERE(T)                                                                                      \
    TD_FN T td_add_##T(T a, T b) { return a + b; }                                                   \
    TD_FN T td_sub_##T(T a, T b) { return a - b; }                                                   \
    TD_FN T td_mul_##T(T a, T b) { return a * b; }                                                   \
    TD_FN T td_div_##T(T a, T b) { return a / b; }                                                   \
    TD_FN T td_neg_##T(T a) { return -a; }                                                           \
    TD_FN T td_min_##T(T a, T b) { return (a <= b || a != a) ? a : b; }                              \
    TD_FN T td_max_##T(T a, T b) { return (a >= b || a != a) ? a : b; }                              \
    TD_FN T td_abs_##T(T a) { return TD_MATH_##T(fabs)(a); }                                         \
    TD_FN T td_sqrt_##T(T a) { return TD_MATH_##T(sqrt)(a); }                                        \
    TD_FN T td_exp_##T(T a) { return TD_MATH_##T(exp)(a); }                                          \
    TD_FN T td_log_##T(T a) { return TD_MATH_##T(log)(a); }                                          \
    TD_FN T td_sin_##T(T a) { return TD_MATH_##T(sin)(a); }                                          \
    TD_FN T td_cos_##T(T a) { return TD_MATH_##T(cos)(a); }                                          \
    TD_FN T td_tan_##T(T a) { return TD_MATH_##T(tan)(a); }                                          \
    TD_FN T td_tanh_##T(T a) { return TD_MATH_##T(tanh)(a); }                                        \
    TD_FN T td_floor_##T(T a) { return TD_MATH_##T(floor)(a); }                                      \
    TD_FN T td_ceil_##T(T a) { return TD_MATH_##T(ceil)(a); }                                        \
    TD_FN T td_trunc_##T(T a) { return TD_MATH_##T(trunc)(a); }                                      \
    TD_FN T td_round_##T(T a) { return TD_MATH_##T(rint)(a); }                                       \
    TD_FN T td_pow_##T(T a, T b) { return TD_MATH_##T(pow)(a, b); }                                  \
    TD_FN T td_mod_##T(T a, T b) {                                                                   \
        const T rest = TD_MATH_##T(fmod)(a, b);                                                      \
        if (b == 0) return rest;                                                                     \
        if (rest == 0) return TD_MATH_##T(copysign)((T)0, b);                                        \
        return (b < 0) != (rest < 0) ? rest + b : rest;                                              \
    }                                                                                                \
    TD_FN T td_floordiv_##T(T a, T b) {                                                              \
        if (b == 0) return a / b;                                                                    \
        const T rest = TD_MATH_##T(fmod)(a, b);                                                      \
        T quotient = (a - rest) / b;                                                                 \
        if (rest != 0 && (b < 0) != (rest < 0)) quotient -= (T)1;                                    \
        if (quotient == 0) return TD_MATH_##T(copysign)((T)0, a / b);                                \
        const T down = TD_MATH_##T(floor)(quotient);                                                 \
        return quotient - down > (T)0.5f ? down + (T)1 : down;                                       \
    }
#define TD_TYPE_f32                                                                                                 \
    TD_FLOAT(f32)                                                                                                   \
    /* bfloat16: the upper half of a float, rounded to nearest even; a NaN stays one by its quiet bit. */           \
    TD_FN u16 td_bits_bfloat16(f32 a) {                                                                             \
        const u32 word = TD_F32_BITS(a);                                                                            \
        const u32 rounded = (word + (u32)0x7fff + ((word >> 16) & (u32)1)) >> 16;                                   \
        return (u16)((word & (u32)0x7fffffff) > (u32)0x7f800000 ? (word >> 16) | (u32)0x40 : rounded);              \
    }                                                                                                               \
    TD_FN f32 td_value_bfloat16(u16 bits) { return TD_BITS_F32((u32)bits << 16); }                                  \
    TD_FN f32 td_round_bfloat16(f32 a) { return td_value_bfloat16(td_bits_bfloat16(a)); }                           \
    TD_FN f32 td_round_float16(f32 a) { return td_value_float16(td_bits_float16(a)); }
#define TD_TYPE_f64 TD_FLOAT(f64)

// Complex numbers. Products and quotients are rounded after each step, on every backend, and special values come as C99's Annex G
// and NumPy have them; so do results that fit where something on the way to them does not.
//
// Division is Smith's, as in NumPy: the larger component of the divisor is divided by first, so that squares don't overflow.
// log takes the modulus through log1p where it is near 1, where the logarithm of a rounded modulus would keep few digits.
// sqrt: Kahan, "Branch cuts for complex elementary functions", 1987.
// pow of small whole exponents is a product, as in NumPy.
//
// For each type: its largest number; what is so small that squares and halves of it lose digits; a whole number whose exponential
// fits with room to spare, and that exponential; the logarithms of 4 and of 2^54.
#define TD_MAX_f32 3.402823466e38f
#define TD_SMALL_f32 1e-25f
#define TD_FITS_f32 80.0f
#define TD_GROWTH_f32 5.540622384e34f
#define TD_LOG_4_f32 1.3862943611f
#define TD_LOG_2_54_f32 37.429947750f
#define TD_MAX_f64 1.7976931348623157e308
#define TD_SMALL_f64 1e-280
#define TD_FITS_f64 700.0
#define TD_GROWTH_f64 1.0142320547350045e304
#define TD_LOG_4_f64 1.386294361119890618
#define TD_LOG_2_54_f64 37.42994775023704670
#define TD_2_54 18014398509481984.0f
#define TD_COMPLEX(C, T)                                                                                                  \
    TD_FN C td_make_##C(T x, T y) {                                                                                       \
        C z;                                                                                                              \
        z.x = x;                                                                                                          \
        z.y = y;                                                                                                          \
        return z;                                                                                                         \
    }                                                                                                                     \
    TD_FN C td_where_##C(b1 c, C a, C b) { return td_make_##C(c ? a.x : b.x, c ? a.y : b.y); }                            \
    TD_FN b1 td_eq_##C(C a, C b) { return (b1)(a.x == b.x && a.y == b.y); }                                               \
    TD_FN b1 td_ne_##C(C a, C b) { return (b1)(a.x != b.x || a.y != b.y); }                                               \
    TD_FN C td_add_##C(C a, C b) { return td_make_##C(a.x + b.x, a.y + b.y); }                                            \
    TD_FN C td_sub_##C(C a, C b) { return td_make_##C(a.x - b.x, a.y - b.y); }                                            \
    TD_FN C td_mul_##C(C a, C b) {                                                                                        \
        return td_make_##C(TD_ROUNDED(a.x * b.x) - TD_ROUNDED(a.y * b.y), TD_ROUNDED(a.x * b.y) + TD_ROUNDED(a.y * b.x)); \
    }                                                                                                                     \
    TD_FN C td_div_##C(C a, C b) {                                                                                        \
        const T width = TD_MATH_##T(fabs)(b.x);                                                                           \
        const T height = TD_MATH_##T(fabs)(b.y);                                                                          \
        if (width >= height) {                                                                                            \
            if (width == 0 && height == 0) return td_make_##C(a.x / width, a.y / width);                                  \
            const T ratio = b.y / b.x;                                                                                    \
            const T scale = (T)1 / (b.x + TD_ROUNDED(b.y * ratio));                                                       \
            return td_make_##C((a.x + TD_ROUNDED(a.y * ratio)) * scale, (a.y - TD_ROUNDED(a.x * ratio)) * scale);         \
        }                                                                                                                 \
        const T ratio = b.x / b.y;                                                                                        \
        const T scale = (T)1 / (TD_ROUNDED(b.x * ratio) + b.y);                                                           \
        return td_make_##C((TD_ROUNDED(a.x * ratio) + a.y) * scale, (TD_ROUNDED(a.y * ratio) - a.x) * scale);             \
    }                                                                                                                     \
    TD_FN C td_neg_##C(C a) { return td_make_##C(-a.x, -a.y); }                                                           \
    TD_FN C td_conj_##C(C a) { return td_make_##C(a.x, -a.y); }                                                           \
    TD_FN T td_real_##C(C a) { return a.x; }                                                                              \
    TD_FN T td_imag_##C(C a) { return a.y; }                                                                              \
    TD_FN T td_abs_##C(C a) { return TD_MATH_##T(hypot)(a.x, a.y); }                                                      \
    /* (x e^power, y e^power), where the exponential alone may not fit. */                                                \
    TD_FN C td_grown_##C(T x, T y, T power) {                                                                             \
        for (int i = 0; i < 2 && power > TD_FITS_##T; ++i) {                                                              \
            power -= TD_FITS_##T;                                                                                         \
            x *= TD_GROWTH_##T;                                                                                           \
            y *= TD_GROWTH_##T;                                                                                           \
        }                                                                                                                 \
        const T growth = TD_MATH_##T(exp)(power);                                                                         \
        return td_make_##C(x * growth, y * growth);                                                                       \
    }                                                                                                                     \
    TD_FN C td_exp_##C(C a) {                                                                                             \
        if (a.y == 0) return td_make_##C(TD_MATH_##T(exp)(a.x), a.y);                                                     \
        if (TD_MATH_##T(fabs)(a.x) > TD_MAX_##T && a.y - a.y != 0) /* infinite, in no direction */                        \
            return a.x > 0 ? td_make_##C(a.x, a.y - a.y) : td_make_##C((T)0, TD_MATH_##T(copysign)((T)0, a.y));           \
        return td_grown_##C(TD_MATH_##T(cos)(a.y), TD_MATH_##T(sin)(a.y), a.x);                                           \
    }                                                                                                                     \
    TD_FN C td_log_##C(C a) {                                                                                             \
        const T width = TD_MATH_##T(fabs)(a.x);                                                                           \
        const T height = TD_MATH_##T(fabs)(a.y);                                                                          \
        const T larger = width > height ? width : height;                                                                 \
        const T smaller = width > height ? height : width;                                                                \
        const T angle = TD_MATH_##T(atan2)(a.y, a.x);                                                                     \
        if (larger > TD_MAX_##T / (T)4 && larger <= TD_MAX_##T) {                                                         \
            const T quarter = TD_MATH_##T(hypot)(a.x * (T)0.25f, a.y * (T)0.25f);                                         \
            return td_make_##C(TD_MATH_##T(log)(quarter) + TD_LOG_4_##T, angle);                                          \
        }                                                                                                                 \
        if (larger < TD_SMALL_##T) {                                                                                      \
            const T longer = TD_MATH_##T(hypot)(a.x * (T)TD_2_54, a.y * (T)TD_2_54);                                      \
            return td_make_##C(TD_MATH_##T(log)(longer) - TD_LOG_2_54_##T, angle);                                        \
        }                                                                                                                 \
        const T length = TD_MATH_##T(hypot)(a.x, a.y);                                                                    \
        const T near_one = TD_MATH_##T(log1p)((larger - (T)1) * (larger + (T)1) + smaller * smaller);                     \
        const int is_near_one = length > (T)0.5f && length < (T)2;                                                        \
        return td_make_##C(is_near_one ? near_one * (T)0.5f : TD_MATH_##T(log)(length), angle);                           \
    }                                                                                                                     \
    TD_FN C td_sqrt_##C(C a) {                                                                                            \
        T width = TD_MATH_##T(fabs)(a.x);                                                                                 \
        T height = TD_MATH_##T(fabs)(a.y);                                                                                \
        if (width == 0 && height == 0) return td_make_##C((T)0, a.y);                                                     \
        if (height > TD_MAX_##T) return td_make_##C(height, a.y);                                                         \
        if (width > TD_MAX_##T) {                                                                                         \
            const T rest = TD_MATH_##T(fabs)(a.y - a.y); /* 0, or a NaN */                                                \
            if (a.x > 0) return td_make_##C(width, TD_MATH_##T(copysign)(rest, a.y));                                     \
            return td_make_##C(rest, TD_MATH_##T(copysign)(width, a.y));                                                  \
        }                                                                                                                 \
        T back = (T)1;                                                                                                    \
        if (width > TD_MAX_##T / (T)4 || height > TD_MAX_##T / (T)4) {                                                    \
            width *= (T)0.0625f;                                                                                          \
            height *= (T)0.0625f;                                                                                         \
            back = (T)4;                                                                                                  \
        } else if (width < TD_SMALL_##T && height < TD_SMALL_##T) {                                                       \
            width *= (T)TD_2_54;                                                                                          \
            height *= (T)TD_2_54;                                                                                         \
            back = (T)7.450580596923828125e-9f; /* 2^-27 */                                                               \
        }                                                                                                                 \
        const T half_length = TD_MATH_##T(hypot)(width, height) * (T)0.5f;                                                \
        const T root = TD_MATH_##T(sqrt)(half_length + width * (T)0.5f);                                                  \
        const T other = height / (root + root) * back;                                                                    \
        if (a.x >= 0) return td_make_##C(root * back, TD_MATH_##T(copysign)(other, a.y));                                 \
        return td_make_##C(other, TD_MATH_##T(copysign)(root * back, a.y));                                               \
    }                                                                                                                     \
    TD_FN C td_pow_##C(C a, C b) {                                                                                        \
        if (b.y == 0 && TD_MATH_##T(fabs)(b.x) < (T)100 && TD_MATH_##T(floor)(b.x) == b.x) {                              \
            const int exponent = (int)b.x;                                                                                \
            if (exponent == 0) return td_make_##C((T)1, (T)0);                                                            \
            if (exponent < 0 && a.x == 0 && a.y == 0) return td_div_##C(a, a);                                            \
            if (exponent == 1) return a;                                                                                  \
            if (exponent == 2) return td_mul_##C(a, a);                                                                   \
            if (exponent == 3) return td_mul_##C(a, td_mul_##C(a, a));                                                    \
            C result = td_make_##C((T)1, (T)0);                                                                           \
            C square = a;                                                                                                 \
            for (int n = exponent < 0 ? -exponent : exponent;;) {                                                         \
                if ((n & 1) != 0) result = td_mul_##C(result, square);                                                    \
                n >>= 1;                                                                                                  \
                if (n == 0) break;                                                                                        \
                square = td_mul_##C(square, square);                                                                      \
            }                                                                                                             \
            return exponent < 0 ? td_div_##C(td_make_##C((T)1, (T)0), result) : result;                                   \
        }                                                                                                                 \
        if (a.x == 0 && a.y == 0) return b.x > 0 ? td_make_##C((T)0, (T)0) : td_div_##C(a, a);                            \
        return td_exp_##C(td_mul_##C(b, td_log_##C(a)));                                                                  \
    }                                                                                                                     \
    TD_FN C td_sin_##C(C a) {                                                                                             \
        const T height = TD_MATH_##T(fabs)(a.y);                                                                          \
        const T c = TD_MATH_##T(cos)(a.x);                                                                                \
        if (c != c) return td_make_##C(c, a.y == 0 ? a.y : height > TD_MAX_##T ? height : c);                             \
        if (a.x == 0) return td_make_##C(a.x, TD_MATH_##T(sinh)(a.y));                                                    \
        const T s = TD_MATH_##T(sin)(a.x);                                                                                \
        if (height > TD_FITS_##T)                                                                                         \
            return td_grown_##C(TD_GROWTH_##T / (T)2 * s, TD_MATH_##T(copysign)(TD_GROWTH_##T / (T)2, a.y) * c,           \
                                height - TD_FITS_##T);                                                                    \
        return td_make_##C(s * TD_MATH_##T(cosh)(a.y), c * TD_MATH_##T(sinh)(a.y));                                       \
    }                                                                                                                     \
    TD_FN C td_cos_##C(C a) {                                                                                             \
        const T height = TD_MATH_##T(fabs)(a.y);                                                                          \
        const T c = TD_MATH_##T(cos)(a.x);                                                                                \
        if (c != c) return td_make_##C(height > TD_MAX_##T ? height : c, a.y == 0 ? a.y : c);                             \
        if (a.x == 0) return td_make_##C(TD_MATH_##T(cosh)(a.y), -(a.x * TD_MATH_##T(copysign)((T)1, a.y)));              \
        const T s = TD_MATH_##T(sin)(a.x);                                                                                \
        if (height > TD_FITS_##T)                                                                                         \
            return td_grown_##C(TD_GROWTH_##T / (T)2 * c, -(TD_MATH_##T(copysign)(TD_GROWTH_##T / (T)2, a.y) * s),        \
                                height - TD_FITS_##T);                                                                    \
        return td_make_##C(c * TD_MATH_##T(cosh)(a.y), -(s * TD_MATH_##T(sinh)(a.y)));                                    \
    }
#define TD_TYPE_c64 TD_COMPLEX(c64, f32)
#define TD_TYPE_c128 TD_COMPLEX(c128, f64)

// Conversions of real numbers, named td_TO_from_FROM. A number that an integer type can't hold becomes the nearest one that it can,
// NaN becomes 0.
#define TD_PLAIN(to, from) \
    TD_FN to td_##to##_from_##from(from a) { return (to)a; }
#define TD_TRUTH(to, from) \
    TD_FN b1 td_b1_from_##from(from a) { return (b1)(a != 0); }
#define TD_SATURATED(to, from, HIGH, LOW, MAX, MIN)                                                   \
    TD_FN to td_##to##_from_##from(from a) {                                                          \
        return a != a ? (to)0 : a >= (from)HIGH ? (to)MAX : a <= (from)LOW ? (to)MIN : (to)a; \
    }
#define TD_TO_i8(to, from) TD_SATURATED(to, from, 128.0f, -128.0f, 127, -128)
#define TD_TO_i16(to, from) TD_SATURATED(to, from, 32768.0f, -32768.0f, 32767, -32768)
#define TD_TO_i32(to, from) TD_SATURATED(to, from, 2147483648.0f, -2147483648.0f, 0x7fffffff, (-0x7fffffff - 1))
#define TD_TO_i64(to, from) \
    TD_SATURATED(to, from, 9223372036854775808.0f, -9223372036854775808.0f, 0x7fffffffffffffffL, (-0x7fffffffffffffffL - 1))
#define TD_TO_u8(to, from) TD_SATURATED(to, from, 256.0f, 0.0f, 0xff, 0)
#define TD_TO_u16(to, from) TD_SATURATED(to, from, 65536.0f, 0.0f, 0xffff, 0)
#define TD_TO_u32(to, from) TD_SATURATED(to, from, 4294967296.0f, 0.0f, 0xffffffffU, 0)
#define TD_TO_u64(to, from) TD_SATURATED(to, from, 18446744073709551616.0f, 0.0f, 0xffffffffffffffffUL, 0)
// float64 on its way to a 16-bit float: rounded to odd, so that the second rounding sees what the first one cut off.
// Source: Boldo, Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008.
#define TD_ODD_f64                                                                                          \
    TD_FN f32 td_odd_from_f64(f64 a) {                                                                      \
        const f32 near = (f32)a;                                                                            \
        const u32 word = TD_F32_BITS(near);                                                                 \
        if (a != a || (f64)near == a || (word & (u32)1) != 0) return near;                                  \
        return TD_BITS_F32(TD_MATH_f64(fabs)((f64)near) > TD_MATH_f64(fabs)(a) ? word - (u32)1 : word + (u32)1); \
    }
#define TD_TO_COMPLEX(C, T, from) \
    TD_FN C td_##C##_from_##from(from a) { return td_make_##C((T)a, (T)0); }
#define TD_COMPLEX_TO_COMPLEX(C, T, from) \
    TD_FN C td_##C##_from_##from(from a) { return td_make_##C((T)a.x, (T)a.y); }
