// Which pattern of a group a symbol belongs to, and which symbols a return probe may be put on.
#include <fnmatch.h>

#include <catch2/catch_test_macros.hpp>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "exporter/config/globs.h"
#include "exporter/probes/functions/limit/dear_functions.h"
#include "exporter/probes/functions/select/exit_strategy.h"
#include "exporter/probes/functions/select/group.h"
#include "exporter/probes/functions/select/unnamed.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using gpusnoop::probes::is_always_observed;

namespace {

FunctionMatcher arranged(const std::vector<std::string> &texts) {
    FunctionMatcher patterns;
    for (const std::string &text : texts) {
        patterns.add(text, config::is_glob(text));
    }
    patterns.arrange();
    return patterns;
}

// "3" for the glob with this number, "3!" for the symbol, "" for none.
std::string found(const FunctionMatcher &patterns, std::string_view symbol) {
    const auto match = patterns.find(symbol);
    return match ? std::to_string(match->pattern) + (match->exact ? "!" : "") : "";
}

std::string found_one_by_one(const std::vector<std::string> &texts, const std::string &symbol) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
        if (!config::is_glob(texts[i]) && texts[i] == symbol) {
            return std::to_string(i) + "!";
        }
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
        if (config::is_glob(texts[i]) && ::fnmatch(texts[i].c_str(), symbol.c_str(), 0) == 0) {
            return std::to_string(i);
        }
    }
    return "";
}

}  // namespace

TEST_CASE("patterns: the symbol itself, else the first glob", "[func_patterns]") {
    const FunctionMatcher patterns =
        arranged({"cublas*", "cublasSgemm_v2", "cublasS*", "*", "nccl?", "nccl[ab]c", "a\\*b"});
    CHECK(found(patterns, "cublasSgemm_v2") == "1!");
    CHECK(found(patterns, "cublasSgemm_v22") == "0");
    CHECK(found(patterns, "cublasSgemm_v") == "0");
    CHECK(found(patterns, "cublas") == "0");
    CHECK(found(patterns, "cubla") == "3");
    CHECK(found(patterns, "") == "3");
    CHECK(found(patterns, "ncclx") == "3");
    CHECK(found(arranged({"nccl?", "nccl[ab]c", "a\\*b", "ncclac"}), "ncclac") == "3!");
    CHECK(found(arranged({"nccl?", "nccl[ab]c"}), "ncclbc") == "1");
    CHECK(found(arranged({"nccl?", "nccl[ab]c"}), "ncclcc").empty());
    CHECK(found(arranged({"a\\*b"}), "a*b") == "0");
    CHECK(found(arranged({"a\\*b"}), "axb").empty());
    CHECK(found(arranged({}), "f").empty());
    CHECK(found(arranged({".*", "/*"}), ".f") == "0");  // no character is special in a symbol
    CHECK(found(arranged({"*b"}), "a/.b") == "0");
    CHECK(found(arranged({"\xff\xfe", "\x01*"}), "\xff\xfe") == "0!");
}

TEST_CASE("patterns: a symbol is given to the same pattern as one by one", "[func_patterns]") {
    std::mt19937 random(20'240'918);
    const auto text = [&](std::string_view letters, std::size_t longest) {
        std::string made(random() % (longest + 1), '\0');
        for (char &c : made) {
            c = letters[random() % letters.size()];
        }
        return made;
    };
    int matches = 0;
    for (int round = 0; round < 400; ++round) {
        std::vector<std::string> texts(random() % 30);
        for (std::string &one : texts) {
            one = text(random() % 2 == 0 ? "ab\xe9" : "aab\xe9*?[]!\\", 6);
        }
        const FunctionMatcher patterns = arranged(texts);
        for (int i = 0; i < 50; ++i) {
            const std::string symbol = text("ab\xe9*", 6);
            const std::string expected = found_one_by_one(texts, symbol);
            CAPTURE(texts, symbol);
            REQUIRE(found(patterns, symbol) == expected);
            matches += expected.empty() ? 0 : 1;
        }
    }
    CHECK(matches > 2000);
}

TEST_CASE("endings: return probes only where they harm nothing", "[func_ending]") {
    for (const auto *symbol : {"cublasSgemm_v2", "malloc", "_exit", "__libc_malloc", "f", "_f1",
                               "X509_new", "_DYNAMIC_init", "_start_thread", "dlclose"}) {
        INFO(symbol);
        CHECK(allows_return_probe(symbol));
    }
    for (const auto *symbol : {"_ZN2at6matmulERKNS_6TensorES2_",
                               "_RNvC1a1b",
                               "_ZN4core3fmt17h0123456789abcdefE",
                               "_D3std5stdio7writelnFZv",
                               "main.main",
                               "f.constprop.0",
                               "f@@V",
                               "f.part.1",
                               "1f",
                               "",
                               "f$a",
                               "$s4main1fyyF",
                               "\xc3\xa9",
                               "a b",
                               "__cxa_throw",
                               "rust_panic_with_hook",
                               "camlStdlib__List__map_1",
                               "_Unwind_RaiseException",
                               "dlsym",
                               "dlopen",
                               "_setjmp",
                               "__sigsetjmp",
                               "vfork",
                               "swapcontext",
                               "_start",
                               "_dl_runtime_resolve_xsavec",
                               "__fentry__",
                               "pthread_exit"}) {
        INFO(symbol);
        CHECK_FALSE(allows_return_probe(symbol));
    }
}

TEST_CASE("endings: parts that are jumped to", "[func_ending]") {
    for (const auto *symbol :
         {"f.cold", "f.cold.0", "f.part.0.cold.12", ".cold", "f.part.0", "f.part.12"}) {
        INFO(symbol);
        CHECK(is_part(symbol));
    }
    for (const auto *symbol : {"f", "f.part", "f.part.", "f.part.x", "f.part.0.constprop.1",
                               "f.cold.", "f.cold.x", "f.colder", "cold", ""}) {
        INFO(symbol);
        CHECK_FALSE(is_part(symbol));
    }
}

// Which functions are never paused, whatever they cost.

TEST_CASE("waits, copies, allocations, frees and operations of NCCL are always observed") {
    for (const std::string symbol : {"cudaStreamSynchronize",
                                     "cudaStreamSynchronize_ptsz",
                                     "cudaDeviceSynchronize",
                                     "cudaEventSynchronize",
                                     "cuCtxSynchronize",
                                     "cuStreamSynchronize_ptsz",
                                     "cudaMalloc",
                                     "cudaMallocAsync",
                                     "cudaFree",
                                     "cudaFreeHost",
                                     "cudaHostAlloc",
                                     "cudaHostRegister",
                                     "cudaMemcpyAsync",
                                     "cudaMemcpy2D_ptds",
                                     "cudaMemPrefetchAsync_v2",
                                     "cudaMemPoolTrimTo",
                                     "cuMemAlloc_v2",
                                     "cuMemFree_v2",
                                     "cuMemcpyHtoDAsync_v2",
                                     "cuMemCreate",
                                     "cuMemRelease",
                                     "ncclAllReduce",
                                     "ncclGroupEnd",
                                     "pncclSend"}) {
        CAPTURE(symbol);
        CHECK(is_always_observed(symbol));
    }
}

TEST_CASE("other functions may be paused") {
    for (const std::string symbol :
         {"cublasGemmEx", "cublasCreate_v2", "cudnnBackendExecute", "cudaEventRecord",
          "cudaStreamWaitEvent", "cudaEventDestroy", "cudaMemGetInfo", "cudaFuncGetAttributes",
          "_ZN2at4_ops6matmul4callERKNS_6TensorES4_", "my_function"}) {
        CAPTURE(symbol);
        CHECK_FALSE(is_always_observed(symbol));
    }
}

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
