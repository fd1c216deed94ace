#include "exporter/probes/functions/attach/function_ids.h"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <vector>

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

FunctionInfo function_named(std::string name) {
    return {"lib.so", "group", std::move(name), {}};
}

FunctionIds::Change to(std::uint32_t number, std::string name) {
    return {.number = number,
            .function = std::make_shared<const FunctionInfo>(function_named(std::move(name)))};
}

FunctionIds::Change removal(std::uint32_t number) {
    return {.number = number, .function = nullptr};
}

FunctionIds::Change release(std::uint32_t number, bool is_removed = false) {
    return {.number = number, .function = nullptr, .is_released = true, .is_removed = is_removed};
}

std::string name_of(const FunctionIds &table, std::uint32_t number) {
    const auto found = table.find(number);
    return found == nullptr ? "" : found->name;
}

std::vector<std::string> function_ids_names(const std::vector<FunctionInfoPtr> &functions) {
    std::vector<std::string> function_ids_names;
    for (const auto &one : functions) {
        function_ids_names.push_back(one->name);
    }
    return function_ids_names;
}

}  // namespace

TEST_CASE("each place of a function has a number of its own") {
    FunctionIds table;
    const auto first = table.add(function_named("f"));
    const auto second = table.add(function_named("f"));
    CHECK(first != second);
    CHECK(name_of(table, first) == "f");
    CHECK(table.is_given(second));
    CHECK_FALSE(table.is_given(2));
    CHECK(table.find(2) == nullptr);
    CHECK(table.all().size() == 2);
}

TEST_CASE("what a number stands for changes when the records from before have been counted") {
    FunctionIds table;
    const auto f = table.add(function_named("f"));
    const auto g = table.add(function_named("g"));
    const auto before = table.queued();
    table.change({to(f, "h"), removal(g)});
    CHECK(name_of(table, f) == "f");
    CHECK(name_of(table, g) == "g");
    CHECK_FALSE(table.apply(before));  // the records up to here are from before the change
    CHECK(name_of(table, f) == "f");
    const auto replaced = table.apply(table.queued());
    REQUIRE(replaced);
    CHECK(function_ids_names(*replaced) == std::vector<std::string>{"f", "g"});
    CHECK(name_of(table, f) == "h");
    CHECK(table.find(g) == nullptr);
    CHECK(table.is_given(g));
    CHECK_FALSE(table.apply(table.queued()));
}

TEST_CASE("a number has the time when it was given, also when it is given again") {
    FunctionIds table;
    const auto f = table.add(function_named("f"), std::chrono::seconds(1));
    CHECK(table.given_at(f) == std::chrono::seconds(1));
    table.change({to(f, "g")});
    REQUIRE(table.apply(table.queued()));
    CHECK(table.given_at(f) == std::chrono::seconds(1));
    table.change({release(f)});
    REQUIRE(table.apply(table.queued()));
    REQUIRE(table.add(function_named("h"), std::chrono::seconds(9)) == f);
    CHECK(table.given_at(f) == std::chrono::seconds(9));
}

TEST_CASE("a change to the same is none") {
    FunctionIds table;
    const auto f = table.add(function_named("f"));
    table.change({to(f, "f")});
    CHECK_FALSE(table.apply(table.queued()));
}

TEST_CASE("a number that stands for nothing stands for something at once") {
    FunctionIds table;
    const auto f = table.add(function_named("f"));
    table.change({removal(f)});
    REQUIRE(table.apply(table.queued()));
    table.change({to(f, "g")});
    CHECK(name_of(table, f) == "g");
    CHECK_FALSE(table.apply(table.queued()));
}

TEST_CASE("of the changes of a number only the last counts") {
    FunctionIds table;
    const auto f = table.add(function_named("f"));
    table.change({removal(f)});
    table.change({to(f, "f")});
    CHECK_FALSE(table.apply(table.queued()));
    CHECK(name_of(table, f) == "f");
    table.change({to(f, "g")});
    table.change({removal(f)});
    REQUIRE(table.apply(table.queued()));
    CHECK(table.find(f) == nullptr);
}

TEST_CASE("a number is given again when no record can have it any more") {
    FunctionIds table;
    const auto f = table.add(function_named("f"));
    table.change({release(f)});
    CHECK(name_of(table, f) == "f");
    CHECK(table.add(function_named("g")) != f);
    const auto replaced = table.apply(table.queued());
    REQUIRE(replaced);
    CHECK(replaced->empty());  // its series stay as long as the processes'
    CHECK_FALSE(table.is_given(f));
    CHECK(table.add(function_named("h")) == f);
    CHECK(name_of(table, f) == "h");
}

TEST_CASE("what is released as it is not configured any more was replaced") {
    FunctionIds table;
    const auto f = table.add(function_named("f"));
    const auto g = table.add(function_named("g"));
    table.change({removal(f)});
    table.change({release(f, true), release(g, true)});
    const auto replaced = table.apply(table.queued());
    REQUIRE(replaced);
    CHECK(function_ids_names(*replaced) == std::vector<std::string>{"f", "g"});
}

TEST_CASE("one that was removed can be released") {
    FunctionIds table;
    const auto f = table.add(function_named("f"));
    table.change({removal(f)});
    REQUIRE(table.apply(table.queued()));
    table.change({release(f)});
    const auto replaced = table.apply(table.queued());
    REQUIRE(replaced);
    CHECK(replaced->empty());
    CHECK(table.add(function_named("g")) == f);
}
