// Finds the name of a kernel from the arguments of its launch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/symbols/stacks/background_resolver.h"
#include "exporter/symbols/stacks/file_cache.h"
#include "exporter/symbols/stacks/mapped_files.h"

namespace gpusnoop::symbols {

// A process's own program, as a BPF program saw it. With it, a kernel can be named after the
// process has ended.
struct Executable {
    std::uint32_t tgid = 0;
    FileId id;
    std::uint64_t bytes = 0;
    std::uint64_t code_start = 0;
    std::uint64_t code_end = 0;
};

// The launch call's first argument in one process: the address of the kernel's host function, or a
// launch handle (nvcc 13), which is not an address of code.
struct CudaKernelRequest {
    std::uint64_t ticket = 0;  // returned with the answer
    Executable executable;
    std::uint64_t address = 0;
    // Where the process has the kernel's device name, as it passed it to __cudaRegisterFunction.
    std::optional<std::uint64_t> name_pointer = {};
};

struct CudaKernelReply {
    std::uint64_t ticket = 0;
    std::string name;  // shortened and demangled; empty: not found
};

// Looks, in this order:
//  1. in the executable's symbols, if the address is in its code;
//  2. in the symbols of the file that the process has mapped there;
//  3. among the executable's launch handles, which nvcc 13 keeps in static variables: this names
//     the kernels of programs that were running before the exporter;
//  4. at the name that was registered with the runtime, which stripped programs have too: in the
//     process, and, when that is gone, in its executable.
// Reads files and other processes' memory, so it takes its time. Used by one thread.
class CudaKernelNamer {
public:
    // The limit of a registered name. A longer one is not shown.
    static constexpr std::size_t max_registered_bytes = 4096;

    // Makes a name from the symbol of the kernel or of its host function. kernel_name() is one such
    // function; any function with a bounded result is good.
    using Naming = std::string (*)(std::string_view symbol);

    explicit CudaKernelNamer(std::unique_ptr<MappedFiles> files, FileCache::Settings settings = {});
    CudaKernelNamer(std::unique_ptr<MappedFiles> files, Naming naming,
                    FileCache::Settings settings);

    // Opens the executable while the process is alive.
    void remember(const Executable &executable) { (void)open_executable(executable); }
    // Empty if no name is found within the limit.
    [[nodiscard]] std::string name(const CudaKernelRequest &request, const WorkLimit &limit = {});
    // Closes files that were not used recently; returns when to call it again.
    std::optional<FileCache::Clock::time_point> close_unused();

private:
    std::string name_by_symbols(const CudaKernelRequest &request, const WorkLimit &limit);
    std::string name_in_executable(const CudaKernelRequest &request, CachedFile &file);
    std::string name_in_mappings(const CudaKernelRequest &request);
    std::string name_of_handle(const CudaKernelRequest &request, CachedFile &file,
                               const WorkLimit &limit);
    std::string registered_name(const CudaKernelRequest &request);
    std::string name_at(CachedFile &file, std::uint64_t file_offset);
    CachedFile *open_executable(const Executable &executable);

    std::unique_ptr<MappedFiles> files_;
    Naming naming_;
    FileCache cache_;
};

// Finds the names of launched kernels, off the hot path in its own thread.
class CudaKernelResolver {
public:
    // The limit of waiting requests. Over the limit, an executable is not opened ahead, and a
    // kernel gets no name.
    static constexpr std::size_t max_waiting = 65'536;

    static Result<std::unique_ptr<CudaKernelResolver>> start();
    explicit CudaKernelResolver(std::unique_ptr<MappedFiles> files,
                                FileCache::Settings settings = {});
    CudaKernelResolver(const CudaKernelResolver &) = delete;
    CudaKernelResolver &operator=(const CudaKernelResolver &) = delete;

    // Opens the executable while the process is alive; it stays open for a minute after its last
    // use. Neither this nor ask() blocks.
    void remember(const Executable &executable);
    void ask(CudaKernelRequest request);
    // The answers that are ready: one for each request.
    std::vector<CudaKernelReply> answers();

private:
    using Question = std::variant<Executable, CudaKernelRequest>;

    void ask(std::uint32_t tgid, Question question);

    CudaKernelNamer namer_;  // used by the thread only
    BackgroundResolver<Question, CudaKernelReply> thread_;
};

}  // namespace gpusnoop::symbols
