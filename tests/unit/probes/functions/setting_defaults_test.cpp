// The groups of functions that are there by default, held against the real libraries where these
// are installed.
#include <fcntl.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bpf/cuda/functions.h"
#include "exporter/base/fd.h"
#include "exporter/config/globs.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/functions/setting_groups.h"
#include "exporter/probes/torch/settings.h"
#include "exporter/symbols/elf/elf_file.h"

using namespace gpusnoop;
using probes::FunctionGroup;
using probes::FunctionPattern;

namespace {

namespace fs = std::filesystem;

// scaled_dot_product_attention, by the start of its symbol.
const std::string kAttention = "_ZN2at4_ops28scaled_dot_product_attention4call";

bool matches(const std::string &glob, const std::string &text) {
    return ::fnmatch(glob.c_str(), text.c_str(), 0) == 0;
}

bool matches(const FunctionPattern &pattern, const std::string &symbol) {
    return pattern.is_glob ? matches(pattern.symbol, symbol) : pattern.symbol == symbol;
}

// The files of a group in the first folder that has any, without the links to them.
std::vector<fs::path> installed(const FunctionGroup &group) {
    const char *home = std::getenv("CUDA_HOME");  // NOLINT: no other thread runs
    for (const fs::path &folder :
         {fs::path(home == nullptr ? "/usr/local/cuda" : home) / "lib64",
          fs::path("/usr/local/cuda/lib"), fs::path("/usr/lib/x86_64-linux-gnu"),
          fs::path("/usr/lib/aarch64-linux-gnu"), fs::path("/usr/lib64")}) {
        std::set<fs::path> files;
        std::error_code ignored;
        for (const auto &entry : fs::directory_iterator(folder, ignored)) {
            const std::string name = entry.path().filename();
            if (std::any_of(group.libraries.begin(), group.libraries.end(),
                            [&](const std::string &glob) { return matches(glob, name); })) {
                files.insert(fs::canonical(entry.path(), ignored));
            }
        }
        if (!files.empty()) {
            return {files.begin(), files.end()};
        }
    }
    return {};
}

// The functions that a library exports, as nm sees them; none where there is no nm.
std::vector<std::string> exported(const fs::path &library) {
    const std::string command = "nm -D --defined-only '" + library.string() + "' 2>/dev/null";
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> pipe(::popen(command.c_str(), "r"),
                                                                &::pclose);
    std::string text;
    std::array<char, 16384> chunk{};
    for (std::size_t n = 1; pipe && n > 0;) {
        n = std::fread(chunk.data(), 1, chunk.size(), pipe.get());
        text.append(chunk.data(), n);
    }
    // 0000000000064a30 W ncclAllReduce, or ...@@libcudart.so.13
    std::vector<std::string> functions;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string line = text.substr(begin, end - begin);
        if (line.size() > 19 && std::string("TWi").find(line[17]) != std::string::npos) {
            functions.push_back(line.substr(19, line.find('@') - 19));
        }
        begin = end + 1;
    }
    return functions;
}

// Of `functions`, those that can be probed in the file.
std::set<std::string> probeable(const fs::path &library,
                                const std::vector<std::string> &functions) {
    const Fd fd(::open(library.c_str(), O_RDONLY | O_CLOEXEC));
    const auto file = symbols::ElfFile::open(fd.get());
    REQUIRE(file);
    const std::vector<std::string_view> names(functions.begin(), functions.end());
    const auto found = file->find_functions(names);
    REQUIRE(found);
    std::set<std::string> all;
    for (const symbols::FoundFunction &one : *found) {
        if (one.probeable && one.file_offset != 0) {
            all.insert(functions[one.name]);
        }
    }
    return all;
}

}  // namespace

TEST_CASE("the default groups want the libraries that wheels and conda rename") {
    const auto groups_that_want = [](const std::string &library) {
        std::string names;
        for (const auto &[name, group] : probes::shipped_function_groups()) {
            if (std::ranges::any_of(group.libraries, [&](const std::string &glob) {
                    return matches(glob, library);
                })) {
                names += (names.empty() ? "" : " ") + name;
            }
        }
        return names;
    };
    CHECK(groups_that_want("libcudart-9335f6a2.so.12") == "cuda");
    CHECK(groups_that_want("libcublas-f6c022dc.so.12") == "cublas");
    CHECK(groups_that_want("libcublasLt-4ef47ce6.so.12") == "cublas");
    CHECK(groups_that_want("libcudnn-0b5e8a3c.so.9") == "cudnn");
    CHECK(groups_that_want("libnccl-1a2b3c4d.so.2") == "nccl");
    CHECK(groups_that_want("librccl-1a2b3c4d.so.1") == "nccl");
    CHECK(groups_that_want("libtorch_cuda.so") == "nccl");
    CHECK(groups_that_want("libtorch_cuda-1a2b3c4d.so") == "nccl");
    CHECK(groups_that_want("libtorch_cpu-1a2b3c4d.so") == "libtorch");
    CHECK(groups_that_want("libpython3-1a2b3c4d.12.so.1.0") == "python");
    CHECK(groups_that_want("libpython3.12-1a2b3c4d.so.1.0") == "python");
    // libcudnn.so passes calls on to these.
    CHECK(groups_that_want("libcudnn_ops-0b5e8a3c.so.9").empty());
    const probes::TorchConfig torch;
    CHECK(std::ranges::any_of(torch.libraries, [](const std::string &glob) {
        return matches(glob, "libc10-1a2b3c4d.so");
    }));
}

TEST_CASE("the default groups are what the configuration would accept") {
    const auto groups = probes::shipped_function_groups();
    CHECK(groups.size() == 7);
    for (const auto &[name, group] : groups) {
        INFO(name);
        // USDT probes write to the memory of programs.
        CHECK(group.enabled == group.usdt.empty());
        CHECK_FALSE(group.libraries.empty());
        for (const std::string &library : group.libraries) {
            CHECK(probes::library_problem(library).empty());
        }
        std::set<std::string> symbols;
        std::set<std::string> names;
        for (const FunctionPattern &one : group.functions) {
            INFO(one.symbol);
            CHECK(probes::symbol_problem(one.symbol, one.name.empty()).empty());
            CHECK(one.is_glob == config::is_glob(one.symbol));
            CHECK(symbols.insert(one.symbol).second);
            CHECK((names.insert(one.name.empty() ? one.symbol : one.name).second ||
                   one.name == "gil_wait"));
            CHECK((one.name.empty() || probes::function_name_problem(one.name).empty()));
            const auto options = probes::options_of(group, one);
            CHECK(options.slow_threshold > std::chrono::nanoseconds(0));
            CHECK(std::is_sorted(options.buckets.begin(), options.buckets.end()));
        }
    }
}

TEST_CASE("the default group cuda leaves to the cuda probe what that shows") {
    // That probe needs to see waits, and what is free, but shows nothing of the calls. Of the calls
    // about streams, captures, events and graphs it shows what they lead to, and not how long they
    // take.
    const auto is_only_seen = [](const probes::CudaFunction &function) {
        return function.operation == CUDA_WAIT_STREAM || function.operation == CUDA_SYNC_EVENT ||
               function.operation == CUDA_WAIT_DEVICE || function.operation == CUDA_FREE_MEMORY;
    };
    const auto patterns = probes::shipped_function_groups().at("cuda").functions;
    for (const probes::CudaFunction &function : probes::cuda_functions()) {
        const std::string symbol(function.symbol);
        INFO(symbol);
        if (function.operation == CUDA_MAKE_STREAM ||
            (function.operation >= CUDA_BEGIN_CAPTURE && function.operation <= CUDA_GET_CHILD)) {
            continue;
        }
        const bool is_default =
            std::any_of(patterns.begin(), patterns.end(),
                        [&](const FunctionPattern &pattern) { return matches(pattern, symbol); });
        // Pinning memory that is there takes its time by the page.
        const bool pins = symbol == "cudaHostRegister" || symbol == "cudaHostUnregister";
        CHECK(is_default == ((is_only_seen(function) || pins) && !function.is_driver()));
    }
}

TEST_CASE("every default function is one of the real libraries") {
    std::size_t checked_groups = 0;
    std::size_t all = 0;
    for (const auto &[name, group] : probes::shipped_function_groups()) {
        const auto files = installed(group);
        std::set<std::string> matched;
        std::vector<bool> is_found(group.functions.size());
        bool has_symbols = false;
        for (const fs::path &file : files) {
            const auto functions = exported(file);
            has_symbols = has_symbols || !functions.empty();
            std::vector<std::string> wanted;
            for (const std::string &symbol : functions) {
                for (std::size_t i = 0; i < group.functions.size(); ++i) {
                    if (matches(group.functions[i], symbol)) {
                        is_found[i] = true;
                        wanted.push_back(symbol);
                    }
                }
            }
            CAPTURE(file, wanted);
            // No function in two lines, and all are as good for probes as for nm.
            CHECK(probeable(file, wanted).size() == wanted.size());
            matched.insert(wanted.begin(), wanted.end());
        }
        // libtorch 1 lacks one of them.
        const bool is_too_old =
            name == "libtorch" &&
            std::none_of(matched.begin(), matched.end(),
                         [](const std::string &symbol) { return symbol.starts_with(kAttention); });
        if (!has_symbols || is_too_old) {
            continue;
        }
        checked_groups++;
        all += matched.size();
        for (std::size_t i = 0; i < group.functions.size(); ++i) {
            CAPTURE(name, group.functions[i].symbol);
            CHECK(is_found[i]);
        }
    }
    if (checked_groups == 0) {
        SKIP("no CUDA libraries in CUDA_HOME, /usr/local/cuda or /usr/lib, or no nm");
    }
    INFO(all << " functions in " << checked_groups << " groups");
    // Each costs some twenty series for each program that calls it.
    CHECK(all <= 150);
    CHECK((checked_groups < 4 || all >= 60));
}
