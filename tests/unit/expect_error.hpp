#pragma once
// Checks on errors: their code and the parts of their message that a user needs.

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include <tandem/error.hpp>

namespace tandem::test {

/// Checks that `call()` throws a tandem::Error of `code`, on one line that contains each of `parts`; returns the error's native
/// code.
template <class Call>
int expect_error(ErrorCode code, std::initializer_list<std::string_view> parts, Call call) {
    try {
        static_cast<void>(call());
    } catch (const Error& error) {
        const std::string message = error.what();
        CAPTURE(message);
        CHECK(static_cast<int>(error.code()) == static_cast<int>(code));
        CHECK(message.find('\n') == std::string::npos);
        for (const std::string_view part : parts) {
            CAPTURE(part);
            CHECK(message.find(part) != std::string::npos);
        }
        return error.native_code();
    }
    FAIL_CHECK("no error");
    return 0;
}

}  // namespace tandem::test
