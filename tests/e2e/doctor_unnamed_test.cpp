// Libraries of groups under names that no group has.
#include <dlfcn.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>

#include "tests/e2e/child.h"
#include "tests/harness/exporter.h"

using namespace harness;

TEST_CASE("doctor names a library of a group that has an unexpected name", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    const std::string unnamed = directory / "libplugin.so";
    const std::string renamed = directory / "libnccl-1a2b3c4d.so.2";
    std::filesystem::copy(standin("libnccl.so.2"), unnamed);
    std::filesystem::copy(standin("libnccl.so.2"), renamed);
    const e2e::Child program([&] {
        const bool is_loaded =
            ::dlopen(standin("12/libcudart.so.12").c_str(), RTLD_NOW) != nullptr &&
            ::dlopen(unnamed.c_str(), RTLD_NOW) != nullptr &&
            ::dlopen(renamed.c_str(), RTLD_NOW) != nullptr;
        write_file(directory / "loaded", std::to_string(is_loaded));
        e2e::pause_for_ever();
        return 0;
    });
    e2e::wait_for_file(directory / "loaded");
    const Finished doctor = run({exporter_binary(), "doctor", "--web.listen-address=127.0.0.1:0"});
    CAPTURE(doctor.output);
    CHECK(doctor.output.find(unnamed + " exports ncclAllReduce of the group nccl") !=
          std::string::npos);
    CHECK(doctor.output.find("add its name to functions.groups.nccl.libraries") !=
          std::string::npos);
    CHECK(doctor.output.find(renamed + " exports") == std::string::npos);
}
