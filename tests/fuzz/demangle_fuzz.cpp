// libFuzzer target: any bytes as a mangled name. What both demanglers read, they must read alike.
//
// Ours leaves out what it does not know ("..."), return types, parameters, tags and parameters of
// lambdas, so scopes, names and template arguments are compared, where ours has them all.
#include <cxxabi.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "exporter/symbols/demangle/mangled_name.h"

using namespace gpusnoop;

namespace {

// Back references stand for much text; short names cannot stand for too much.
constexpr std::size_t most = 48;
constexpr std::size_t most_of_ours = 1 << 16;

// Identifiers only: bytes that mean something to a demangler's output would be taken for it.
bool is_plain(std::string_view text) {
    return text.find_first_not_of(
               "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz") ==
           std::string_view::npos;
}

// A name whose parts do not depend on how somebody writes them.
bool is_comparable(std::string_view ours) {
    for (const std::string_view part : {"...", "{", "operator", "(anonymous", "~"}) {
        if (ours.find(part) != std::string_view::npos) {
            return false;
        }
    }
    return true;
}

// "std::ostream::ostream": constructors of the classes with letters of their own are
// "std::basic_ostream<...>::basic_ostream" to the other.
bool is_constructor_of_letter(std::string_view mangled) {
    for (std::size_t at = 0; at + 2 < mangled.size(); at++) {
        const char after = mangled[at + 2];
        if (mangled[at] == 'S' && (after == 'C' || after == 'D')) {
            return true;
        }
    }
    return false;
}

// Without parameters, which theirs has in local names, too: "a::f(int)::b". And without spaces: one
// writes "a<b<int> >", the other "a<b<int>>".
std::string essence(std::string_view text) {
    std::string rest;
    int depth = 0;
    for (const char c : text) {
        depth += c == '(' ? 1 : 0;
        if (depth == 0 && c != ' ') {
            rest += c;
        }
        depth -= c == ')' ? 1 : 0;
    }
    return rest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string text = "_Z" + std::string(reinterpret_cast<const char *>(data), size);
    for (const std::size_t arguments : {std::size_t{0}, std::size_t{256}}) {
        const auto ours = symbols::read_mangled_name(text, arguments);
        if (ours && (ours->empty() || ours->size() > most_of_ours)) {
            std::abort();
        }
    }
    (void)symbols::count_mangled_parameters(text);
    const auto ours = symbols::read_mangled_name(text, 256);
    if (!ours || size > most || !is_plain(text) || !is_comparable(*ours) ||
        is_constructor_of_letter(text)) {
        return 0;
    }
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> theirs(
        abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status), &std::free);
    if (status != 0 || theirs == nullptr) {
        return 0;  // ours is not there to judge names: it reads no further than it needs to
    }
    if (essence(theirs.get()).find(essence(*ours)) == std::string::npos) {
        std::fprintf(stderr, "%s\n  ours   %s\n  theirs %s\n", text.c_str(), ours->c_str(),
                     theirs.get());
        std::abort();
    }
    return 0;
}
