#include "exporter/http/request_parts.h"

#include <catch2/catch_test_macros.hpp>
#include <map>
#include <string>

using gpusnoop::http::parse_query;

namespace {

using Values = std::map<std::string, std::string>;

std::string error_of(std::string_view query) {
    const auto values = parse_query(query);
    return values ? "" : values.error().message;
}

}  // namespace

TEST_CASE("a query is values by name", "[http_query]") {
    CHECK(parse_query("").value() == Values{});
    CHECK(parse_query("pid=12&comm=train").value() == Values{{"pid", "12"}, {"comm", "train"}});
    CHECK(parse_query("&&a=1&").value() == Values{{"a", "1"}});
    CHECK(parse_query("a&b=").value() == Values{{"a", ""}, {"b", ""}});
    CHECK(parse_query("a=b=c").value() == Values{{"a", "b=c"}});
    CHECK(parse_query("=x").value() == Values{{"", "x"}});
    CHECK(parse_query("A=1&a=2").value() == Values{{"A", "1"}, {"a", "2"}});
}

TEST_CASE("escapes in a query are decoded once", "[http_query]") {
    CHECK(parse_query("comm=a%20b+c").value() == Values{{"comm", "a b c"}});
    CHECK(parse_query("%63omm=%3D%26%2b%C3%a9").value() == Values{{"comm", "=&+\xC3\xA9"}});
    CHECK(parse_query("a=%2520").value() == Values{{"a", "%20"}});
    CHECK(parse_query("a=%00%ff").value() == Values{{"a", std::string("\0\xFF", 2)}});
}

TEST_CASE("what is wrong with a query is one clear sentence", "[http_query]") {
    CHECK(error_of("a=%") == "after % two hexadecimal digits must follow, not \"\"");
    CHECK(error_of("a=%4") == "after % two hexadecimal digits must follow, not \"4\"");
    CHECK(error_of("a=%zz1") == "after % two hexadecimal digits must follow, not \"zz\"");
    CHECK(error_of("a=%4x") == "after % two hexadecimal digits must follow, not \"4x\"");
    CHECK(error_of("a=%-1") == "after % two hexadecimal digits must follow, not \"-1\"");
    CHECK(error_of("a=%4&b=1") == "after % two hexadecimal digits must follow, not \"4\"");
    CHECK(error_of("%=1") == "after % two hexadecimal digits must follow, not \"\"");
    CHECK(error_of("a=1&b=2&%61=3") == "duplicate parameter \"a\"");
    CHECK(error_of("\xFF=1&%ff=1") == "duplicate parameter \"\xEF\xBF\xBD\"");
    const std::string name(4000, 'x');
    CHECK(error_of(name + "&" + name).size() < 200);
}
