#include "exporter/probes/frame/api/list_page.h"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/frame/registry.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

const std::vector<PageParameter> page =
    process_parameters({{"color", PageParameter::Type::choice, {"red", "blue"}},
                        {"min", PageParameter::Type::duration}});

Result<ListQuery> list_query_of(const QueryParameters &parameters) {
    return ListQuery::read(parameters, page);
}

std::string list_query_error(const QueryParameters &parameters) {
    const auto query = list_query_of(parameters);
    return query ? "" : query.error().message;
}

bool wants(const QueryParameters &parameters, std::uint32_t pid, const std::string &comm,
           const std::string &script) {
    processes::ProcessNames names;
    names.comm = comm;
    names.script = script;
    return list_query_of(parameters).value().wants_process(pid, names);
}

}  // namespace

TEST_CASE("lists of the API are of the processes that a request names") {
    CHECK(wants({}, 7, "python3", ""));
    CHECK(wants({{"pid", "7"}, {"comm", "python*"}, {"script", "train?.py"}}, 7, "python3",
                "train1.py"));
    CHECK_FALSE(wants({{"pid", "8"}}, 7, "python3", ""));
    CHECK_FALSE(wants({{"comm", "python"}}, 7, "python3", ""));
    CHECK_FALSE(wants({{"script", "*.py"}}, 7, "python3", ""));
    // A name with a pattern's characters is asked for with a backslash.
    CHECK(wants({{"comm", "\\[x]"}}, 7, "[x]", ""));
    CHECK_FALSE(wants({{"comm", "[x]"}}, 7, "[x]", ""));
}

TEST_CASE("a list has defaults for what a request does not say") {
    const ListQuery all = list_query_of({}).value();
    CHECK(all.choice("color") == "red");
    CHECK(all.duration_ns("min") == 0);
    CHECK(all.limit() == 4'294'967'295);
    CHECK_FALSE(all.has_process());
    const ListQuery some =
        list_query_of({{"color", "blue"}, {"min", "20us"}, {"limit", "3"}, {"script", "x"}})
            .value();
    CHECK(some.choice("color") == "blue");
    CHECK(some.duration_ns("min") == 20'000);
    CHECK(some.limit() == 3);
    CHECK(some.has_process());
}

TEST_CASE("what is wrong with a request for a list is one sentence") {
    CHECK(list_query_error({{"colour", "red"}}) ==
          "\"colour\" is not a parameter of this page; it has color, min, pid, comm, script and "
          "limit");
    CHECK(list_query_error({{"color", "green"}}) == "color must be red or blue, not \"green\"");
    CHECK(list_query_error({{"min", "20"}}) ==
          "min must be a duration, such as 500us or 20ms, not \"20\"");
    CHECK(list_query_error({{"pid", "0"}}) ==
          "pid must be a number from 1 to 4294967295, not \"0\"");
    const std::string glob =
        "comm must be a name or a glob of 1 to 256 bytes with at most 8 *, not ";
    CHECK(list_query_error({{"comm", ""}}) == glob + "\"\"");
    CHECK(list_query_error({{"comm", "*a*a*a*a*a*a*a*a*"}}) == glob + "\"*a*a*a*a*a*a*a*a*\"");
}

TEST_CASE("a list is cut where its limit or the page's is reached, and says what it lacks") {
    std::string text = "{";
    int made = 0;
    JsonList list(text, "things", 4, 40);
    for (int i = 0; i < 6; i++) {
        list.add([&] {
            made++;
            return nlohmann::ordered_json(i == 2 ? std::string(40, 'x') : "thing");
        });
    }
    list.leave_out(10);
    // The third is too long, and what follows it is not shown either, nor made.
    CHECK(made == 3);
    const std::size_t left_out = list.end();
    const auto answer = nlohmann::json::parse(end_page(text, left_out).text);
    CHECK(answer ==
          nlohmann::json::parse(R"({"things":["thing","thing"],"left_out":14,"truncated":true})"));
}

TEST_CASE("the lists of the API have names of their own") {
    const auto names = api_page_names();
    CHECK(names.size() >= 10);
    CHECK(std::set(names.begin(), names.end()).size() == names.size());
}
