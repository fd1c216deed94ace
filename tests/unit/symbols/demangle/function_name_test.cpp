#include "exporter/symbols/demangle/function_name.h"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <utility>
#include <vector>

#include "exporter/base/text/text.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;

namespace {

using Cases = std::vector<std::pair<std::string_view, std::string_view>>;

void check_all(const Cases &cases) {
    for (const auto &[symbol, name] : cases) {
        INFO(symbol);
        CHECK(function_name(symbol) == name);
    }
}

}  // namespace

// Symbols that GCC 14 made.
TEST_CASE("function names without arguments", "[function_name]") {
    check_all({
        {"main", "main"},
        {"leak_big", "leak_big"},
        {"_ZN5model7Trainer4stepERKSt6vectorIfSaIfEE", "model::Trainer::step"},
        {"_ZNK5model7Trainer4sizeEv", "model::Trainer::size"},
        {"_ZN5model7TrainerC1Ei", "model::Trainer::Trainer"},
        {"_ZN5model7TrainerD2Ev", "model::Trainer::~Trainer"},
        {"_ZN5model7TrainerC2B5cxx11Ev", "model::Trainer::Trainer"},
        {"_ZNSt6vectorIfSaIfEEC1Ev", "std::vector<float, std::allocator<float>>::vector"},
        {"_ZN1AIN1B1CEEC1Ev", "A<B::C>::A"},
        {"_ZN5modelplERKNS_1TES2_", "model::operator+"},
        {"_ZN1TclEi", "T::operator()"},
        {"_ZN1TcvbEv", "T::operator bool"},
        {"_ZN1TcvPKcEv", "T::operator char const*"},
        {"_Zli3_kmy", "operator\"\"_km"},
        {"_ZlsIcEvT_", "operator<< <char>"},
        {"_Znwm", "operator new"},
        {"_ZN12_GLOBAL__N_14growEm", "(anonymous namespace)::grow"},
        {"_ZN2at6native4fillIfEEvPT_", "at::native::fill<float>"},
        {"_ZN9__gnu_cxx14__alloc_traitsISaIN5model5LayerEES2_E8allocateERS3_m",
         "__gnu_cxx::__alloc_traits<...>::allocate"},
    });
}

TEST_CASE("function names of lambdas and of functions in functions", "[function_name]") {
    check_all({
        {"_ZZ4mainENKUlvE_clEv", "main::{lambda#1}::operator()"},
        {"_ZZ4mainENKUlvE0_clEv", "main::{lambda#2}::operator()"},
        {"_ZZ4mainENKUlvE11_clEv", "main::{lambda#13}::operator()"},
        {"_ZZN5model7Trainer4stepERKSt6vectorIfSaIfEEENKUliE_clEi",
         "model::Trainer::step::{lambda#1}::operator()"},
        {"_ZZ3runPFvviEENKUlvE_clEv", "run::{lambda#1}::operator()"},
        {"_ZZ3runRA4_iM1TFivEDpT_zENKUlvE_clEv", "run::{lambda#1}::operator()"},
        {"_ZZ3runM1TFvvREENKUlvE_clEv", "run::{lambda#1}::operator()"},
        {"_ZZ3runM1TFvvOEENKUlvE_clEv", "run::{lambda#1}::operator()"},
        {"_ZN1AIPFvvE1TE1gIS2_EEvv", "A<...>::g<T>"},
        {"_ZZ3runiEN5Local2goEv", "run::Local::go"},
        {"_ZZN1T1fEvEd_NKUlvE_clEv", "T::f::{lambda#1}::operator()"},
        {"_ZNKUlvE_clEv", "{lambda#1}::operator()"},
        {"_ZZZ4mainENKUlvE_clEvENKUlvE_clEv",
         "main::{lambda#1}::operator()::{lambda#1}::operator()"},
        // What is called through std::function and std::thread.
        {"_ZNSt17_Function_handlerIFvvEZ4mainEUlvE_E9_M_invokeERKSt9_Any_data",
         "std::_Function_handler<...>::_M_invoke"},
        {"_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJPFvvEEEEEE6_M_runEv",
         "std::thread::_State_impl<...>::_M_run"},
        // A parameter that is not known: the rest of the name is not, either.
        {"_ZZ3runDTplT_T_ENKUlvE_clEv", "run::..."},
        {"_Z1fIXadL_Z1gvEEEvv", "f<...>"},
        {"_Z1fINKSsEEvv", "f<...>"},  // no type is const in this way
    });
}

TEST_CASE("what compilers and linkers add to a name is left away", "[function_name]") {
    check_all({
        {"leak_big.cold", "leak_big"},
        {"leak_big.part.0", "leak_big"},
        {"leak_big.constprop.0.isra.0", "leak_big"},
        {"_ZN5model7Trainer4stepEv.cold", "model::Trainer::step"},
        {"cudaMalloc@@libcudart.so.12", "cudaMalloc"},
        {"cudaMalloc@libcudart.so.12", "cudaMalloc"},
        // Go's names, and those that would be empty.
        {"main.main", "main.main"},
        {"runtime.mallocgc", "runtime.mallocgc"},
        {".cold", ".cold"},
        {"@x", "@x"},
        {"", ""},
    });
}

TEST_CASE("function names are bounded", "[function_name]") {
    const std::string name(150, 'k');
    CHECK(function_name(name) == name);
    CHECK(function_name(std::string(300, 'k')) == "..." + std::string(197, 'k'));
    const std::string scope(90, 's');
    const std::string templated =
        "_ZN90" + scope + "I" + "30" + std::string(30, 'a') + "E90" + scope + "IiE1fIfEEvv";
    CHECK(function_name(templated) == scope + "<...>::" + scope + "<...>::f<...>");
    CHECK(function_name("_ZN1a\xff") == "_ZN1a\xef\xbf\xbd");
    CHECK(function_name("gr\xc3\xb6\xc3\x9f"
                        "e") ==
          "gr\xc3\xb6\xc3\x9f"
          "e");
    CHECK(function_name("a\nb") ==
          "a\xef\xbf\xbd"
          "b");
}

TEST_CASE("names are shortened where they tell the least", "[function_name]") {
    CHECK(shortened_name("a::b<int>::c", 12) == "a::b<int>::c");
    CHECK(shortened_name("aaaa::b<int, A<B>>::c<double, 3>", 24) == "aaaa::b<...>::c<...>");
    CHECK(shortened_name("T::operator<< <char, char, char>", 20) == "T::operator<< <...>");
    CHECK(shortened_name("T::operator-><char, char, char>", 20) == "T::operator-><...>");
    CHECK(shortened_name("0123456789abcdefgh", 16) == "...56789abcdefgh");
    CHECK(shortened_name("0123456789\xc3\xa9"
                         "bcdefghijklm",
                         16) == "...bcdefghijklm");
    CHECK(shortened_name("a<b<c<d<e<f<g<h<i", 16) == "a<...>");
    CHECK(shortened_name(">>>>>>>>>>>>>>>>>>>>", 16) == "...>>>>>>>>>>>>>");
}

TEST_CASE("mutated symbols give a function name", "[function_name]") {
    const std::vector<std::string> originals{
        "_ZZN5model7Trainer4stepERKSt6vectorIfSaIfEEENKUliE0_clEi",
        "_ZNSt17_Function_handlerIFvvEZ4mainEUlvE_E9_M_invokeERKSt9_Any_data",
        "_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJPFvvEEEEEE6_M_runEv",
        "_ZZ3runRA4_iM1TFivEDpT_zENKUlvE_clEv", "_ZN1AIN1B1CEEC1Ev.part.0"};
    constexpr std::string_view letters = "_ZNIEJLXSTKVPROFAMDUClt0123456789.@abfirst\xff\n";
    std::mt19937 random(11);
    for (int round = 0; round < 50'000; ++round) {
        std::string symbol = originals[random() % originals.size()];
        for (auto changes = random() % 5; changes > 0; --changes) {
            symbol[random() % symbol.size()] = letters[random() % letters.size()];
        }
        symbol.resize(1 + random() % symbol.size());
        const std::string name = function_name(symbol);
        const bool good = !name.empty() && name.size() <= max_function_name_bytes &&
                          find_invalid_utf8(name) == std::string::npos;
        if (!good) {
            FAIL_CHECK(symbol << " gives " << name);
        }
    }
}
