// Products of matrices in every layout, against the definition on integers, which every order of summing gives exactly.
#include <limits>

#include "blas_support.hpp"

namespace tandem::test {
namespace {

using blas::Operation;

struct Sizes {
    std::int64_t m, n, k;
};

std::vector<Sizes> gemm_sizes() {
    if (options().window_bytes != 0) return {{1, 1, 1}, {7, 5, 3}};  // what fits into one window
    return {{1, 1, 1}, {7, 1, 61}, {1, 7, 93}, {61, 93, 7}, {93, 61, 93}, {7, 61, 1}};
}

Shape shape_before(Operation operation, std::int64_t rows, std::int64_t columns) {
    return operation == Operation::none ? Shape{rows, columns} : Shape{columns, rows};
}

// One product, checked.
void check_gemm(Queue& queue, DType dtype, const Sizes& size, const Lying& a_lies, const Lying& b_lies, const Lying& c_lies,
                Operation op_a, Operation op_b, Value alpha, Value beta) {
    const Operand a = make_operand(dtype, shape_before(op_a, size.m, size.k), a_lies, 1);
    const Operand b = make_operand(dtype, shape_before(op_b, size.k, size.n), b_lies, 2);
    const Operand c = make_operand(dtype, {size.m, size.n}, c_lies, 3);
    const std::vector<Value> expected =
        product(alpha, a.values(), a.array.shape(), op_a, b.values(), b.array.shape(), op_b, beta, c.values(), c.array.shape());
    blas::gemm(queue, alpha, a.array, b.array, beta, c.array, op_a, op_b);
    queue.synchronize();
    const std::int64_t difference = first_difference(c.values(), expected);
    INFO(to_string(dtype), " m ", size.m, " n ", size.n, " k ", size.k, " orders ", static_cast<int>(a_lies.order),
         static_cast<int>(b_lies.order), static_cast<int>(c_lies.order), " padded ", a_lies.padding, " operations ",
         static_cast<int>(op_a), static_cast<int>(op_b));
    CHECK_MESSAGE(difference == -1, "first wrong element: " << difference);
    CHECK(c.is_intact_around());
    CHECK(bytes_of(*a.buffer) == a.before);
    CHECK(bytes_of(*b.buffer) == b.before);
}

constexpr Order orders[] = {Order::c, Order::fortran};

}  // namespace

TEST_CASE("gemm in every combination of orders, transposes and slices") {
    Queue queue(device());
    with_each_library([&] {
        for (const DType dtype : blas_dtypes()) {
            const Value alpha = is_complex(dtype) ? Value(2, -1) : Value(2), beta = is_complex(dtype) ? Value(-1, 3) : Value(-3);
            std::size_t turn = 0;
            const std::vector<Sizes> cases = gemm_sizes();
            for (const Order a_order : orders) {
                for (const Order b_order : orders) {
                    for (const Order c_order : orders) {
                        for (const Operation op_a : {Operation::none, Operation::transpose}) {
                            for (const Operation op_b : {Operation::none, Operation::transpose}) {
                                // Sizes and slices take turns, so that each meets each layout in some type.
                                for (int repeat = 0; repeat < (dtype == float32 ? 3 : 1); ++repeat, ++turn) {
                                    const auto odd = static_cast<std::int64_t>(turn % 3);
                                    check_gemm(queue, dtype, cases[turn % cases.size()], {a_order, odd * 2, odd},
                                               {b_order, (odd + 1) % 3, 3 - odd}, {c_order, odd, odd * 5}, op_a, op_b, alpha,
                                               turn % 2 == 0 ? beta : Value(0));
                                }
                            }
                        }
                    }
                }
            }
            check_gemm(queue, dtype, cases.back(), {}, {}, {}, Operation::none, Operation::none, 1, 0);
            check_gemm(queue, dtype, cases[1], {}, {}, {}, Operation::none, Operation::none, 1, 1);
        }
    });
}

TEST_CASE("gemm with conjugate transposes") {
    Queue queue(device());
    with_each_library([&] {
        for (const DType dtype : blas_dtypes()) {
            const auto none = Operation::none, conjugate = Operation::conjugate_transpose;
            const Sizes size = gemm_sizes()[1];
            for (const Order order : orders) {
                for (const Order other : orders) {
                    const Lying lies{order, 1, 2}, lies_otherwise{other, 2, 1};
                    check_gemm(queue, dtype, size, lies, lies_otherwise, lies, conjugate, none, 1, 2);
                    check_gemm(queue, dtype, size, lies_otherwise, lies, lies, Operation::transpose, conjugate, 1, 2);
                    check_gemm(queue, dtype, size, lies, lies, lies, conjugate, conjugate, 1, 0);
                }
            }
            // Of a row or a column both orders are the same.
            check_gemm(queue, dtype, {1, 5, 7}, {Order::c}, {Order::c}, {Order::fortran}, conjugate, none, 1, 0);
            // Real matrices have no conjugate, and so any order.
            if (!is_complex(dtype))
                check_gemm(queue, dtype, {5, 3, 7}, {Order::c}, {Order::c}, {Order::fortran}, conjugate, none, 1, 0);
        }
    });
}

TEST_CASE("gemm of float16, where the device has half precision") {
    Queue queue(device());
    const std::vector<Sizes> cases = gemm_sizes();
    if (device().info().backend == "opencl") {
        const Operand a = make_operand(float16, {2, 2}, {}, 1);
        const Array c = make_array(float16, {2, 2});
        try {
            blas::gemm(queue, a.array, a.array, c);
        } catch (const Error& error) {
            CHECK(error.code() == ErrorCode::unsupported);
            CHECK(std::string(error.what()).find("cl_khr_fp16") != std::string::npos);
            return;
        }
    }
    for (const Order order : orders) {
        for (const Sizes& size : cases)
            check_gemm(queue, float16, size, {Order::c, 1, 1}, {order, 0, 3}, {order, 2, 0}, Operation::none, Operation::none, 2,
                       -1);
    }
}

TEST_CASE("an output whose beta is 0 is not read, and inputs whose alpha is 0 are not either") {
    Queue queue(device());
    const double nan = std::numeric_limits<double>::quiet_NaN();
    with_each_library([&] {
        for (const DType dtype : blas_dtypes()) {
            const std::vector<Value> nans(6, nan);
            const Operand a = make_operand(dtype, {2, 3}, {}, 1);
            const Operand b = make_operand(dtype, {3, 3}, {}, 2);
            const Operand c = make_operand(dtype, {2, 3}, {Order::fortran, 1, 1}, 0, &nans);
            blas::gemm(queue, 1, a.array, b.array, 0, c.array);
            CHECK(c.values() ==
                  product(1, a.values(), {2, 3}, Operation::none, b.values(), {3, 3}, Operation::none, 0, {}, {2, 3}));

            const Operand y = make_operand(dtype, {2}, {.step = 2}, 0, &nans);
            const Operand x = make_operand(dtype, {3}, {}, 4);
            blas::gemv(queue, 1, a.array, x.array, 0, y.array);
            CHECK(y.values() ==
                  product(1, a.values(), {2, 3}, Operation::none, x.values(), {3, 1}, Operation::none, 0, {}, {2, 1}));

            const Operand bad = make_operand(dtype, {2, 3}, {}, 0, &nans);
            const Operand kept = make_operand(dtype, {2, 3}, {}, 5);
            std::vector<Value> expected = kept.values();
            blas::gemm(queue, 0, bad.array, b.array, 1, kept.array);
            CHECK(kept.values() == expected);
            blas::gemm(queue, 0, bad.array, b.array, 3, kept.array);
            for (Value& value : expected)
                value *= 3;
            CHECK(kept.values() == expected);
            blas::gemm(queue, 0, bad.array, b.array, 0, kept.array);
            CHECK(kept.values() == std::vector<Value>(6, 0));
            blas::scal(queue, 0, y.array);
            CHECK(y.values() == std::vector<Value>(2, 0));
        }
    });
}

TEST_CASE("products of nothing scale the output, and outputs of nothing are left alone") {
    Queue queue(device());
    for (const Order order : orders) {
        const Operand a = make_operand(float32, {4, 0}, {}, 1);
        const Operand b = make_operand(float32, {0, 5}, {}, 2);
        const Operand c = make_operand(float32, {4, 5}, {order, 2, 3}, 3);
        std::vector<Value> expected = c.values();
        for (Value& value : expected)
            value *= -2;
        blas::gemm(queue, 1, a.array, b.array, -2, c.array);
        CHECK(c.values() == expected);
        CHECK(c.is_intact_around());
        blas::gemm(queue, 1, a.array, b.array, 0, c.array);
        CHECK(c.values() == std::vector<Value>(20, 0));
        CHECK(c.is_intact_around());
        const Operand nothing = make_operand(float32, {0, 5}, {order, 1, 1}, 7);
        blas::gemm(queue, make_operand(float32, {0, 4}, {}, 8).array, c.array, nothing.array);
        CHECK(nothing.is_intact_around());

        const Operand y = make_operand(float32, {4}, {.step = 3}, 4);
        const Operand x = make_operand(float32, {0}, {}, 5);
        expected = y.values();
        for (Value& value : expected)
            value *= 5;
        blas::gemv(queue, 1, a.array, x.array, 5, y.array);
        CHECK(y.values() == expected);
        CHECK(y.is_intact_around());

        const Operand stack = make_operand(float32, {3, 4, 5}, {order, 1, 1}, 6);
        expected = stack.values();
        for (Value& value : expected)
            value *= 7;
        blas::gemm_strided_batched(queue, 1, a.array, b.array, 7, stack.array);
        CHECK(stack.values() == expected);
        const std::vector<Array> a_list{a.array}, b_list{b.array}, c_list{c.array};
        blas::gemm_batched(queue, 1, a_list, b_list, 0, c_list);
        CHECK(c.values() == std::vector<Value>(20, 0));
        blas::gemm_batched(queue, 1, {}, {}, 0, {});
    }
}

TEST_CASE("gemm of stacked matrices") {
    Queue queue(device());
    with_each_library([&] {
        for (const DType dtype : blas_dtypes(Coverage::one)) {
            const Value alpha = 2, beta = -1;
            for (const Order order : orders) {
                for (const bool is_shared : {false, true}) {
                    const std::int64_t batch = is_shared ? 3 : 4, m = 5, n = 7, k = 3;
                    const Operand a = make_operand(dtype, {batch, m, k}, {order, 1, 2}, 1);
                    const Operand b = make_operand(dtype, is_shared ? Shape{k, n} : Shape{batch, k, n}, {Order::c, 0, 1}, 2);
                    const Operand c = make_operand(dtype, {batch, m, n}, {order, 2, 3}, 3);
                    const std::vector<Value> a_values = a.values(), b_values = b.values(), c_values = c.values();
                    std::vector<Value> expected;
                    const auto part = [](const std::vector<Value>& all, std::int64_t index, std::int64_t count) {
                        return std::vector<Value>(all.begin() + index * count, all.begin() + (index + 1) * count);
                    };
                    for (std::int64_t i = 0; i < batch; ++i) {
                        const auto one = product(alpha, part(a_values, i, m * k), {m, k}, Operation::none,
                                                 part(b_values, is_shared ? 0 : i, k * n), {k, n}, Operation::none, beta,
                                                 part(c_values, i, m * n), {m, n});
                        expected.insert(expected.end(), one.begin(), one.end());
                    }
                    blas::gemm_strided_batched(queue, alpha, a.array, b.array, beta, c.array);
                    CHECK(first_difference(c.values(), expected) == -1);
                    CHECK(c.is_intact_around());
                }
            }
        }
    });
}

TEST_CASE("gemm of separate matrices at aligned and odd addresses") {
    Queue queue(device());
    with_each_library([&] {
        for (const DType dtype : blas_dtypes()) {
            for (const std::int64_t lead : {16, 1}) {
                for (const Order order : orders) {
                    std::vector<Operand> a, b, c;
                    std::vector<Array> a_list, b_list, c_list;
                    std::vector<std::vector<Value>> expected;
                    for (std::uint64_t i = 0; i < 5; ++i) {
                        a.push_back(make_operand(dtype, {9, 4}, {Order::c, 0, lead}, 10 + i));
                        b.push_back(make_operand(dtype, {4, 6}, {order, 4, lead}, 20 + i));
                        c.push_back(make_operand(dtype, {9, 6}, {order, 2, lead}, 30 + i));
                        expected.push_back(product(3, a[i].values(), {9, 4}, Operation::none, b[i].values(), {4, 6},
                                                   Operation::none, 2, c[i].values(), {9, 6}));
                        a_list.push_back(a[i].array);
                        b_list.push_back(b[i].array);
                        c_list.push_back(c[i].array);
                    }
                    blas::gemm_batched(queue, 3, a_list, b_list, 2, c_list);
                    queue.synchronize();
                    for (std::size_t i = 0; i < c.size(); ++i) {
                        CHECK(first_difference(c[i].values(), expected[i]) == -1);
                        CHECK(c[i].is_intact_around());
                    }
                }
            }
        }
    });
}

TEST_CASE("a queue keeps the matrices of its products alive") {
    Queue queue(device());
    const Operand c = make_operand(float32, {7, 5}, {}, 3);
    std::vector<Value> expected;
    {
        const Operand a = make_operand(float32, {7, 6}, {}, 1);
        const Operand b = make_operand(float32, {6, 5}, {}, 2);
        expected = product(1, a.values(), {7, 6}, Operation::none, b.values(), {6, 5}, Operation::none, 0, {}, {7, 5});
        blas::gemm(queue, a.array, b.array, c.array);
    }
    CHECK(c.values() == expected);
}

}  // namespace tandem::test
