// Finds the Python interpreters of processes, and names the call sites of their allocations, on its
// own thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/processes/user_room.h"
#include "exporter/probes/frame/python/frames.h"
#include "exporter/probes/frame/python/interpreter.h"
#include "exporter/probes/frame/python/stacks.h"
#include "exporter/symbols/stacks/background_resolver.h"
#include "exporter/symbols/stacks/mapped_files.h"
#include "exporter/symbols/stacks/stack_namer.h"

namespace gpusnoop::probes {

// A function of Python's that a thread was in.
struct PythonStackFrame {
    PythonCall call;
    std::uint32_t identity = 0;  // as in python_place()
};

struct SiteQuestion {
    ProcessKey process;
    // Empty: only whether the process has an interpreter.
    std::optional<symbols::StackRequest> site;
    std::vector<PythonStackFrame> python{};  // of the same thread, innermost first
    // A thread of PyTorch's that computes gradients, in no function of Python's: those are the main
    // thread's.
    bool is_backward = false;
};

struct SiteAnswer {
    ProcessKey process;
    // With Python's functions among the native ones. Empty: the question was another one.
    std::optional<symbols::StackReply> site;
    std::optional<PythonInterpreter> python;  // empty, too: the process has none, or none yet
};

// For names of functions that were read, of all processes together.
inline constexpr UserRoom::Limits room_for_places{.bytes = std::size_t{64} << 20,
                                                  .bytes_of_user = std::size_t{32} << 20};

class PythonSiteResolver {
public:
    // The limit of waiting questions. Over it, questions are answered immediately, with unresolved
    // frames.
    static constexpr std::size_t max_waiting = 4096;

    static Result<std::unique_ptr<PythonSiteResolver>> start();
    explicit PythonSiteResolver(std::unique_ptr<symbols::MappedFiles> files,
                                const UserRoom::Limits &limits = room_for_places);

    // Never blocks.
    void ask(SiteQuestion question);
    // The answers that are ready: one for each question, in any order.
    [[nodiscard]] std::vector<SiteAnswer> answers() { return thread_.answers(); }

private:
    using Clock = std::chrono::steady_clock;
    using Place = std::tuple<std::uint64_t, std::uint32_t, std::int64_t>;
    struct Named {
        PythonSiteFrame site;
        symbols::Frame frame;
    };
    struct Process {
        std::optional<PythonInterpreter> python;
        UserShare room;
        std::map<Place, Named> places;  // that could be read
        Clock::time_point used;
    };

    std::vector<SiteAnswer> answer(const std::vector<SiteQuestion> &questions,
                                   const WorkLimit &limit);
    Process &look_at(const ProcessKey &key, const WorkLimit &limit);
    std::vector<Named> name(const SiteQuestion &question, const WorkLimit &limit);
    static void add_python(const SiteQuestion &question, std::vector<Named> named,
                           symbols::StackReply &reply);
    Named read(std::uint32_t tgid, Process &process, const PythonStackFrame &frame);
    std::optional<Clock::time_point> tidy();

    // Used by the thread only.
    symbols::StackNamer namer_;
    std::shared_ptr<UserRoom> room_;
    std::map<ProcessKey, Process> processes_;
    symbols::BackgroundResolver<SiteQuestion, SiteAnswer> thread_;
};

}  // namespace gpusnoop::probes
