#include "fixture.hpp"

namespace tandem::test {

// First of all: what follows says something only if it runs where it was meant to.
TEST_CASE("the device is the one that was asked for" * doctest::test_suite("0 selection")) {
    const std::string wanted = options().device;
    const std::string backend = wanted.substr(0, wanted.find(':'));
    REQUIRE(device().info().backend == backend);
    const std::string selector = wanted.find(':') == std::string::npos ? "0" : wanted.substr(wanted.find(':') + 1);
    if (selector.find_first_not_of("0123456789") == std::string::npos) REQUIRE(device().info().index == std::stoi(selector));
    REQUIRE(device().spec() == backend + ":" + std::to_string(device().info().index));
    if (options().window_bytes != 0) REQUIRE(device().info().max_window_bytes == options().window_bytes);
    REQUIRE(make_array(float32, {3}).kind() == options().kind);
}

TEST_CASE("every backend is listed, with devices or with a reason") {
    bool host = false;
    for (const BackendInfo& backend : list_backends()) {
        INFO(backend.name);
        CHECK(backend.devices.empty() == !backend.reason.empty());
        for (std::size_t i = 0; i < backend.devices.size(); ++i) {
            const DeviceInfo& info = backend.devices[i];
            CHECK(info.spec == backend.name + ":" + std::to_string(i));
            CHECK(info.backend == backend.name);
            CHECK(!info.name.empty());
            CHECK(info.memory_bytes > 0);
            CHECK(info.max_window_bytes > 0);
            CHECK(info.compute_units > 0);
        }
        host = host || (backend.name == "host" && backend.devices.size() == 1);
    }
    CHECK(host);
}

TEST_CASE("opening a device twice gives the same one") {
    const Device first = open_device(options().device);
    CHECK(first == open_device(first.spec()));
}

TEST_CASE("a device that is not there is an error, and nothing else is opened") {
    const std::string backend = device().info().backend;
    CHECK_ERROR(ErrorCode::unavailable, backend + ":999", open_device(backend + ":999"));
    CHECK_ERROR(ErrorCode::unavailable, "no-such-name", open_device(backend + ":no-such-name"));
    CHECK_ERROR(ErrorCode::unavailable, "18446744073709551616", open_device(backend + ":18446744073709551616"));
    CHECK_ERROR(ErrorCode::invalid_argument, "colon", open_device(backend + ":"));
    CHECK_ERROR(ErrorCode::invalid_argument, "unknown backend", open_device("abacus:0"));
}

TEST_CASE("a device can be named by a part of its name, in any case") {
    std::string name = device().info().name;
    for (char& c : name)
        c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    CHECK(open_device(device().info().backend + ":" + name).info().name == device().info().name);
}

}  // namespace tandem::test
