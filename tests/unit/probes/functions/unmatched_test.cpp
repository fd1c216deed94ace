#include "exporter/probes/functions/select/unnamed.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

using namespace gpusnoop;

namespace {

using Names = std::vector<std::string>;

probes::FunctionGroup group_of(const Names &libraries) {
    probes::FunctionGroup group;
    group.libraries = libraries;
    return group;
}

}  // namespace

TEST_CASE("unmatched functions: of one library they are known at once") {
    probes::UnmatchedFunctions unmatched;
    const auto group = group_of({"libone.so*"});
    CHECK(unmatched.note("g", group, "libone.so.1", {"missing"}) == Names{"missing"});
}

TEST_CASE("unmatched functions: a library that has two names is one library") {
    probes::UnmatchedFunctions unmatched;
    const auto group = group_of({"libone.so*", "libone-*.so*"});
    CHECK(unmatched.note("g", group, "libone-1a2b3c4d.so.1", {"missing"}) == Names{"missing"});
    const auto two = group_of({"libone.so*", "libone-*.so*", "liboneLt.so*"});
    CHECK(unmatched.note("h", two, "libone-1a2b3c4d.so.1", {"missing"}).empty());
    CHECK(unmatched.note("h", two, "liboneLt.so.1", {"missing"}) == Names{"missing"});
}

TEST_CASE("unmatched functions: what another library of the group has is not missing") {
    probes::UnmatchedFunctions unmatched;
    const auto group = group_of({"libone.so*", "/opt/*/libtwo.so*"});
    CHECK(unmatched.note("g", group, "libone.so.1", {"of_two", "missing"}).empty());
    CHECK(unmatched.note("g", group, "libone.so.1", {"of_two", "missing"}).empty());
    CHECK(unmatched.note("g", group, "libtwo.so.1", {"of_one", "missing"}) == Names{"missing"});
    // Once is enough.
    CHECK(unmatched.note("g", group, "libtwo.so.2", {"of_one", "missing"}).empty());
    // With another configuration it is another question.
    unmatched.forget();
    CHECK(unmatched.note("g", group, "libone.so.1", {"missing"}).empty());
    CHECK(unmatched.note("g", group, "libtwo.so.1", {"missing"}) == Names{"missing"});
}
