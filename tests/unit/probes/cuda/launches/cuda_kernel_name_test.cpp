#include "exporter/probes/cuda/launches/cuda_kernel_name.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/text/text.h"
#include "exporter/symbols/demangle/mangled_name.h"
#include "exporter/symbols/elf/elf_file.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;

namespace {

// What the C++ library makes of a name; only for names that can be trusted.
std::string demangled(const std::string &name) {
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr), &std::free);
    std::string result = text ? text.get() : "";
    for (std::size_t at; (at = result.find("> >")) != std::string::npos;) {
        result.erase(at + 1, 1);
    }
    return result;
}

std::string cxx_library() {
    std::string path;
    ::dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t, void *out) {
            if (std::string_view(info->dlpi_name).find("libstdc++") != std::string_view::npos) {
                *static_cast<std::string *>(out) = info->dlpi_name;
            }
            return 0;
        },
        &path);
    return path;
}

}  // namespace

// Symbols of a program that nvcc 13.0 compiled.
TEST_CASE("kernel names of nvcc's symbols", "[kernel_name]") {
    const std::vector<std::pair<std::string_view, std::string_view>> cases{
        {"_Z3addPfPKfi", "add"},
        {"_Z5scaleIfEvPT_i", "scale<float>"},
        {"_Z5scaleIdEvPT_i", "scale<double>"},
        {"_ZL4statPi", "stat"},
        {"_ZL6noargsv", "noargs"},
        {"_ZN2ns5inner4deepEi", "ns::inner::deep"},
        {"_ZN2ns5innerL2tnILi3ENS_1SEEEvT0_", "ns::inner::tn<3, ns::S>"},
        {"_ZN2ns5inner2tnILi3ENS_1SEEEvT0_", "ns::inner::tn<3, ns::S>"},
        {"_Z8variadicIiJfdEEvDpT0_", "variadic<int, float, double>"},
        {"_ZN36_GLOBAL__N__85d8c554_4_k_cu_e6581e9d4anonEPi", "(anonymous namespace)::anon"},
        {"_ZN36_GLOBAL__N__85d8c554_4_k_cu_e6581e9dL5anontIiEEvPT_",
         "(anonymous namespace)::anont<int>"},
        {"_ZN2nsL3lamIf17__nv_dl_wrapper_tI11__nv_dl_tagIPFivEXadL_Z4mainEELj1EEJEEEEvPT_T0_",
         "ns::lam<...>"},
        {"_ZN2ns3lamIfZ4mainEUnvdl0_PFivE4main1_EEvPT_T0_", "ns::lam<...>"},
        {"plain_c_kernel", "plain_c_kernel"},
        // The host stubs in front of them.
        {"_Z26__device_stub__Z3addPfPKfiPfPKfi", "add"},
        {"_ZL23__device_stub__Z4statPiPi", "stat"},
        {"_Z34__device_stub__Z14plain_c_kernelPiPi", "plain_c_kernel"},
        {"_ZL30__device_stub__Z5scaleIdEvPT_iPdi", "scale<double>"},
        {"_Z28__wrapper__device_stub_scaleIfEvRPT_Ri", "scale<float>"},
        {"_ZN2ns5innerL25__wrapper__device_stub_tnILi3ENS_1SEEEvRT0_", "ns::inner::tn<3, ns::S>"},
        {"_Z33__device_stub__ZN2ns5inner4deepEii", "ns::inner::deep"},
        {"__device_stub__Z3addPfPKfi", "add"},
        // clang's
        {"_Z18__device_stub__addPfPKfi", "add"},
        {"_ZN2ns19__device_stub__tmplIiEEvT_", "ns::tmpl<int>"},
        {"__device_stub__plain", "plain"},
    };
    for (const auto &[symbol, name] : cases) {
        INFO(symbol);
        CHECK(kernel_name(symbol) == name);
    }
}

TEST_CASE("kernel names of well-known libraries", "[kernel_name]") {
    const std::vector<std::pair<std::string_view, std::string_view>> cases{
        {"_ZN7cutlass6KernelINS_4gemm6kernel4GemmINS1_11threadblock12MmaPipelinedEEEEEvNT_6ParamsE",
         "cutlass::Kernel<...>"},
        {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEviT0_",
         "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"},
        {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEE"
         "viT0_T1_",
         "at::native::vectorized_elementwise_kernel<...>"},
        {"_Z6reduceILj512ELb1ELln2EEvPf", "reduce<512u, true, -2l>"},
        {"_Z4normIN2ns4NormELS1_2EEvv", "norm<ns::Norm, (ns::Norm)2>"},
        {"_Z4copyIPKfPVdEvv", "copy<float const*, double volatile*>"},
        {"_Z4copyIPVKfRKiEvv", "copy<float const volatile*, int const&>"},
        {"_Z4copyIRKiOS0_EvvS_", "copy<int const&, int const&&>"},
        {"_Z4copyIPVKiS1_Evv", "copy<int const volatile*, int const volatile*>"},
        {"_Z4copyIPVKfRKiOcEvv", "copy<...>"},  // 41 bytes
        {"_ZN6MatrixIfE6kernelEPf", "Matrix<float>::kernel"},
        {"_Z4sortISt6vectorIiSaIiEEEvT_", "sort<std::vector<int, std::allocator<int>>>"},
        {"_Z1fIS", "f<...>"},
        {"_Z1fIXadL_Z1gvEEEvv", "f<...>"},
        {"_Z5emptyIJEEvDpT_", "empty<>"},
    };
    for (const auto &[symbol, name] : cases) {
        INFO(symbol);
        CHECK(kernel_name(symbol) == name);
    }
}

TEST_CASE("what is not a mangled name stays as it is", "[kernel_name]") {
    for (const std::string_view symbol :
         {"", "_Z", "_ZN", "_Z3", "_Z9short", "_Zxyz", "_ZC1Ev", "_ZTV1A", "main", "_ZNC1Ev",
          "_Z0v", "_Z99999999999999999999999x", "__device_stub__", "_ZSt"}) {
        INFO(symbol);
        CHECK(kernel_name(symbol) == symbol);
    }
}

TEST_CASE("long names are cut", "[kernel_name]") {
    const std::string inside(100, 'n');
    const std::string name = "_ZN100" + inside + "100" + std::string(100, 'k') + "Ev";
    CHECK(kernel_name(name) == "..." + std::string(15, 'n') + "::" + std::string(100, 'k'));
    CHECK(kernel_name(std::string(121, 'c')) == "..." + std::string(117, 'c'));
    CHECK(kernel_name(std::string(120, 'c')) == std::string(120, 'c'));
    // Arguments go before letters of the name do.
    const std::string templated = "_Z110" + std::string(110, 'k') + "IfddddEvv";
    CHECK(kernel_name(templated) == std::string(110, 'k') + "<...>");
    // Never in the middle of a character, and no bytes that are not UTF-8.
    std::string wide;
    for (int i = 0; i < 100; ++i) {
        wide += "\xc3\xa9";
    }
    CHECK(find_invalid_utf8(kernel_name(wide)) == std::string::npos);
    CHECK(kernel_name(wide).size() <= max_kernel_name_bytes);
    CHECK(kernel_name("\xff\xfe") == "\xef\xbf\xbd\xef\xbf\xbd");
    CHECK(kernel_name("_Z3a\nbv") ==
          "a\xef\xbf\xbd"
          "b");
}

TEST_CASE("a name that stands for endless text costs nothing", "[kernel_name]") {
    // Each pair doubles the one before: written out, this is longer than any memory.
    std::string doubling = "_Z1fI1aIiiE";
    constexpr std::string_view digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (std::size_t i = 0; i < 200; ++i) {
        const std::string last =
            i < 35 ? std::string(1, digits[i]) : std::string{digits[i / 36], digits[i % 36]};
        doubling += "1bIS" + last + "_S" + last + "_E";
    }
    doubling += "Evv";
    CHECK(kernel_name(doubling) == "f<...>");

    // Nor does it take stack: these are read in a thread that has little.
    std::string nested = "_Z1fI";
    for (int i = 0; i < 5000; ++i) {
        nested += "1aI";
    }
    std::vector<std::string> symbols{"_Z1fI" + std::string(100'000, 'P') + "iEvv", nested,
                                     "_Z1fI" + std::string(100'000, 'J'),
                                     "_Z1fI" + std::string(100'000, 'Z')};
    pthread_attr_t attributes;
    REQUIRE(::pthread_attr_init(&attributes) == 0);
    REQUIRE(::pthread_attr_setstacksize(&attributes, 256 * 1024) == 0);
    const auto name_all = [](void *names) -> void * {
        for (std::string &name : *static_cast<std::vector<std::string> *>(names)) {
            name = kernel_name(name);
        }
        return nullptr;
    };
    pthread_t thread{};
    REQUIRE(::pthread_create(&thread, &attributes, name_all, &symbols) == 0);
    ::pthread_join(thread, nullptr);
    ::pthread_attr_destroy(&attributes);
    CHECK(symbols == std::vector<std::string>(4, "f<...>"));
}

TEST_CASE("mutated symbols give a label", "[kernel_name]") {
    const std::vector<std::string> originals{
        "_ZN2ns5innerL2tnILi3ENS_1SEEEvT0_",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEE"
        "viT0_T1_",
        "_ZZ26__device_stub__Z3addPfPKfiPfPKfiE8__handle",
        "_ZN2nsL3lamIf17__nv_dl_wrapper_tI11__nv_dl_tagIPFivEXadL_Z4mainEELj1EEJEEEEvPT_T0_"};
    constexpr std::string_view letters = "_ZNIEJLXSTKVPRO0123456789abfirst\xff\n";
    std::mt19937 random(7);
    for (int round = 0; round < 50'000; ++round) {
        std::string symbol = originals[random() % originals.size()];
        for (auto changes = random() % 5; changes > 0; --changes) {
            symbol[random() % symbol.size()] = letters[random() % letters.size()];
        }
        symbol.resize(1 + random() % symbol.size());
        const std::string name = kernel_name(symbol);
        const bool good = !name.empty() && name.size() <= max_kernel_name_bytes &&
                          find_invalid_utf8(name) == std::string::npos;
        if (!good) {
            FAIL_CHECK(symbol << " gives " << name);
        }
        (void)kernel_of_launch_handle(symbol);
    }
}

TEST_CASE("mangled names are read as the C++ library reads them", "[kernel_name]") {
    const std::string library = cxx_library();
    if (library.empty()) {
        SKIP("this program is not linked with a shared libstdc++");
    }
    const Fd fd(::open(library.c_str(), O_RDONLY | O_CLOEXEC));
    const auto file = ElfFile::open(fd.get());
    REQUIRE(file);
    std::set<std::string> symbols;
    for (const std::string_view ending : {"v", "i", "c", "E", "_", "m", "f", "d", "w"}) {
        const auto found = file->find_by_suffix(ending);
        REQUIRE(found);
        for (const FoundSymbol &symbol : *found) {
            symbols.insert(symbol.name);
        }
    }
    int compared = 0;
    for (const std::string &symbol : symbols) {
        const auto name = read_mangled_name(symbol, 1000);
        const std::string reference = demangled(symbol);
        // Not compared: what is known to be written otherwise (abi tags, lambdas, std::string's
        // own functions), and data, which has no parameters.
        if (!name || name->find("{lambda") != std::string::npos || symbol.starts_with("_ZNS") ||
            name->find("...") != std::string::npos || symbol.find("B5cxx11") != symbol.npos ||
            reference.find('(') == std::string::npos) {
            continue;
        }
        ++compared;
        const std::size_t at = reference.find(*name + "(");
        if (at == std::string::npos || (at > 0 && reference[at - 1] != ' ')) {
            FAIL_CHECK(symbol << " is " << reference << ", not " << *name);
        }
    }
    CHECK(compared > 1000);
}

TEST_CASE("launch handles name their kernel", "[kernel_name]") {
    const std::vector<std::pair<std::string_view, std::string_view>> cases{
        {"_ZZ26__device_stub__Z3addPfPKfiPfPKfiE8__handle", "_Z3addPfPKfi"},
        {"_ZZL23__device_stub__Z4statPiPiE8__handle", "_Z4statPi"},
        {"_ZZL24__device_stub__Z6noargsvvE8__handle", "_Z6noargsv"},
        {"_ZZL30__device_stub__Z5scaleIfEvPT_iPfiE8__handle", "_Z5scaleIfEvPT_i"},
        {"_ZZ33__device_stub__ZN2ns5inner4deepEiiE8__handle", "_ZN2ns5inner4deepEi"},
        {"_ZZ34__device_stub__Z14plain_c_kernelPiPiE8__handle", "_Z14plain_c_kernelPi"},
        {"_ZZL61__device_stub__ZN2ns3lamIfZ4mainEUnvdl0_PFivE4main1_EEvPT_T0_PfR17__nv_dl_wrapper_"
         "tI"
         "11__nv_dl_tagIPFivEXadL_Z4mainEELj1EEJEEE8__handle",
         "_ZN2ns3lamIfZ4mainEUnvdl0_PFivE4main1_EEvPT_T0_"},
    };
    for (const auto &[symbol, kernel] : cases) {
        INFO(symbol);
        CHECK(kernel_of_launch_handle(symbol) == kernel);
        CHECK(symbol.ends_with(launch_handle_ending));
    }
    for (const std::string_view symbol :
         {"", "_ZZE8__handle", "_ZZ26__device_stub__Z3addPfPKfiPfPKfiE3__f", "_ZZ3fooE8__handle",
          "_ZZ999__device_stub__Z3addPfPKfiE8__handle", "_ZZ14__device_stub_E8__handle",
          "_ZGVZ26__device_stub__Z3addPfPKfiPfPKfiE8__handle", "E8__handle",
          "_ZZ99999999999999999999999__device_stub__Z1aE8__handle"}) {
        INFO(symbol);
        CHECK_FALSE(kernel_of_launch_handle(symbol));
    }
}
