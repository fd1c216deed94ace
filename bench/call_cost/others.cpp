#include "bench/call_cost/others.h"

#include <algorithm>
#include <utility>

#include "bench/call_cost/child.h"

namespace gpusnoop::bench {

namespace {

// If this program is killed, they end by themselves.
constexpr const char *longest_run_seconds = "3600";

struct Children final : Tracing {
    std::vector<Child> children;

    [[nodiscard]] Result<std::uint64_t> lost() const override {
        return std::ranges::any_of(children, &Child::ended)
                   ? fail("it ended before the measurement did")
                   : Result<std::uint64_t>(0);
    }
};

std::string replace_all(std::string text, const std::string &what, const std::string &by) {
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
        text.replace(at, what.size(), by);
    }
    return text;
}

TracingResult run_bpftrace(const std::filesystem::path &bpftrace, const std::string &script,
                           std::size_t ends) {
    auto tracing = std::make_unique<Children>();
    auto child = Child::start(
        bpftrace, {"-e", script + "interval:s:" + longest_run_seconds + " { exit(); }"});
    if (!child) {
        return tl::unexpected(child.error());
    }
    if (auto attached = child->wait_until_attached(ends); !attached) {
        return fail_in("bpftrace", attached.error());
    }
    tracing->children.push_back(std::move(*child));
    return tracing;
}

}  // namespace

TracingResult trace_with_bpftrace_latency(const std::filesystem::path &bpftrace,
                                          const Library &library) {
    // Each function has its own maps: the runtime calls the driver, and with one @start[tid] for
    // both, the inner call would end the outer one.
    std::string script;
    for (const std::string &function : library.traced()) {
        script += replace_all(
            "uprobe:LIBRARY:NAME { @start_NAME[tid] = nsecs; } "
            "uretprobe:LIBRARY:NAME /@start_NAME[tid]/ "
            "{ @NAME = hist(nsecs - @start_NAME[tid]); delete(@start_NAME[tid]); } ",
            "NAME", function);
    }
    return run_bpftrace(bpftrace, replace_all(script, "LIBRARY", library.path()),
                        2 * library.traced().size());
}

TracingResult trace_with_bpftrace_memory(const std::filesystem::path &bpftrace,
                                         const Library &library) {
    const std::string script =
        "uprobe:LIBRARY:cudaMalloc "
        "{ @where[tid] = arg0; @size[tid] = arg1; @start_malloc[tid] = nsecs; } "
        "uretprobe:LIBRARY:cudaMalloc /@start_malloc[tid]/ "
        "{ @malloc = hist(nsecs - @start_malloc[tid]); "
        "if (retval == 0) { @live[*(uint64 *)@where[tid]] = @size[tid]; } "
        "delete(@where[tid]); delete(@size[tid]); delete(@start_malloc[tid]); } "
        "uprobe:LIBRARY:cudaFree { @start_free[tid] = nsecs; delete(@live[arg0]); } "
        "uretprobe:LIBRARY:cudaFree /@start_free[tid]/ "
        "{ @free = hist(nsecs - @start_free[tid]); delete(@start_free[tid]); } ";
    return run_bpftrace(bpftrace, replace_all(script, "LIBRARY", library.path()), 4);
}

TracingResult trace_with_funclatency(const std::filesystem::path &funclatency,
                                     const Library &library,
                                     const std::vector<std::string> &functions) {
    auto tracing = std::make_unique<Children>();
    for (const std::string &function : functions) {
        auto child = Child::start(
            funclatency, {"--duration", longest_run_seconds, library.path() + ":" + function});
        if (!child) {
            return tl::unexpected(child.error());
        }
        tracing->children.push_back(std::move(*child));
    }
    for (const Child &child : tracing->children) {
        if (auto attached = child.wait_until_attached(2); !attached) {
            return fail_in("funclatency", attached.error());
        }
    }
    return tracing;
}

}  // namespace gpusnoop::bench
