#include "exporter/config/globs.h"

#include <fnmatch.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

using gpusnoop::config::glob_problem;
using gpusnoop::config::is_glob;

namespace {

// All texts of `alphabet` that are 1 to `length` long.
std::vector<std::string> all_texts(const std::string &alphabet, std::size_t length) {
    std::vector<std::string> texts = {""};
    for (std::size_t begin = 0, round = 0; round < length; ++round) {
        const std::size_t end = texts.size();
        for (; begin < end; ++begin) {
            for (const char c : alphabet) {
                texts.push_back(texts[begin] + c);
            }
        }
    }
    texts.erase(texts.begin());
    return texts;
}

bool matches(const std::string &glob, const std::string &text) {
    return ::fnmatch(glob.c_str(), text.c_str(), 0) == 0;
}

}  // namespace

TEST_CASE("globs that match something are fine") {
    for (const std::string glob :
         {"a",    "*",     "**",   "a*b?c", "[abc]", "[a-z0-9_]*", "[!a]",         "[^a]",
          "[]a]", "[!]a]", "[a-]", "[-a]",  "[[]",   "[a[]",       "[[:alpha:]_]", "[]-a]",
          "\\*",  "\\[",   "a]",   "[\\]]", "a\\\\", "\xC3\xA4*"}) {
        INFO(glob);
        CHECK(glob_problem(glob).empty());
    }
}

TEST_CASE("globs that match nothing, or not what they seem to, are reported") {
    CHECK(glob_problem("") == "must not be empty");
    CHECK(glob_problem("a\\") == R"("a\" ends with a \, which has nothing to stand before)");
    for (const std::string glob : {"a[", "[]", "[!]", "[^", "[a-", "[a\\", "[a\\]", "[[:alpha:]"}) {
        INFO(glob);
        CHECK(glob_problem(glob) ==
              '"' + glob + "\" has a [ without its ]: write [[] for the character itself");
    }
    CHECK(glob_problem("[z-a]") == R"("[z-a]" has the range z-a, which is empty)");
    CHECK(glob_problem("[[:digits:]]") ==
          R"("[[:digits:]]" has the unknown class "digits", did you mean "digit"?)");
    CHECK(
        glob_problem("[[.a.]]") ==
        R"("[[.a.]]" has a [. in a set: put the [ last in it, or write a class such as [:digit:])");
    CHECK(glob_problem("[[=a=]]").find(" has a [= in a set: ") != std::string::npos);
    CHECK(glob_problem("[[:alpha]").find(" has a [: in a set: ") != std::string::npos);
    CHECK(glob_problem("[\xC3\xA4]") ==
          "\"[\xC3\xA4]\" has a character in a set that is not ASCII");
}

TEST_CASE("what is a glob and what is not") {
    for (const std::string text : {"a*", "?", "[a]", "a[", "\\a"}) {
        CHECK(is_glob(text));
    }
    for (const std::string text : {"", "a", "_ZN1aC2Ev.part.0", "a]", "a-b", "a!"}) {
        CHECK_FALSE(is_glob(text));
    }
}

TEST_CASE("every short glob without problems matches something, for fnmatch") {
    const auto texts = all_texts("ab-[]!\\*", 4);
    int fine = 0;
    int wrong = 0;
    for (const std::string &glob : all_texts("a-[]!\\*", 4)) {
        const bool matches_any =
            std::any_of(texts.begin(), texts.end(),
                        [&](const std::string &text) { return matches(glob, text); });
        if (glob_problem(glob).empty()) {
            INFO(glob);
            REQUIRE(matches_any);
            // What is no glob is its own only match.
            REQUIRE((is_glob(glob) || matches(glob, glob)));
            fine++;
        } else {
            wrong++;
        }
    }
    CHECK(fine > 1000);
    CHECK(wrong > 500);
}
