// Names the call sites of a probe's processes, with the functions of Python where there are some.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/python/site_resolver.h"
#include "exporter/probes/frame/python/tables.h"
#include "exporter/symbols/stacks/stack_namer.h"

namespace gpusnoop::probes {

class PythonSites {
public:
    static Result<PythonSites> start(PythonTables tables);

    // `python` is the stack of Python's functions, or PYTHON_STACK_...
    void ask(symbols::StackRequest site, const ProcessKey &process, std::uint64_t python);
    // If the process has a Python interpreter, its next calls have the stacks of Python's
    // functions. Looks at once if its program is called so, else at the next rescan: there may be
    // thousands of short processes.
    void look_for_python(const ProcessIdentity &process);
    // For each rescan interval: looks again where none was found, as a program may load one at any
    // time. Forgets what is not `in_use` of Python's stacks.
    void rescan(const std::vector<std::pair<ProcessKey, std::chrono::nanoseconds>> &running,
                std::chrono::nanoseconds now, const std::set<std::uint64_t> &in_use);
    void hand_answers_to(const std::function<void(symbols::StackReply)> &take);

private:
    // Of a process without an interpreter; counted in rescans.
    struct Look {
        std::uint32_t waited = 0;
        std::uint32_t next = 1;
    };

    PythonSites(std::unique_ptr<PythonSiteResolver> resolver, PythonTables tables)
        : resolver_(std::move(resolver)), tables_(std::move(tables)) {}

    std::unique_ptr<PythonSiteResolver> resolver_;
    PythonTables tables_;
    std::map<ProcessKey, Look> looks_;
};

}  // namespace gpusnoop::probes
