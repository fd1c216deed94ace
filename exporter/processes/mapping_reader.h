// Lists the mappings of other processes, and never waits long for one of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/mapping_list.h"
#include "exporter/system/foreign_reader.h"

namespace gpusnoop::processes {

// The kernel lists the mappings of a process under the process's own lock, and a process can hold
// that for as long as it likes: it unmaps a changed page of a file on a file system that does not
// answer. So a child process reads, and is killed if it waits. The process is then left alone, for
// longer each time; and once the processes of one user have used up the waiting time of a while,
// all of them are. Used by one thread.
class MappingReader {
public:
    using Clock = std::chrono::steady_clock;
    struct Limits {
        Clock::duration patience = std::chrono::milliseconds(100);  // with a process
        Clock::duration of_user = std::chrono::milliseconds(300);   // in `window`
        Clock::duration window = std::chrono::seconds(10);
        Clock::duration first_pause = std::chrono::milliseconds(200);  // doubles each time
        Clock::duration longest_pause = std::chrono::seconds(30);
    };

    // `list` must outlive it.
    explicit MappingReader(ebpf::MappingList &list) : MappingReader(list, Limits()) {}
    MappingReader(ebpf::MappingList &list, Limits limits) : list_(list), limits_(limits) {}

    // Of one process. A process that has ended has no mappings. ETIMEDOUT: it does not answer, or
    // it is left alone; try again later.
    [[nodiscard]] Result<std::vector<ebpf::Mapping>> read(std::uint32_t tgid);
    // Of all processes that answer, except the exporter's own children. On kernels before 6.1,
    // which cannot list one process alone, one that does not answer is in the way of all:
    // ETIMEDOUT.
    [[nodiscard]] Result<std::vector<ebpf::Mapping>> read_all();

    // As mapped_path() returns it. Without CAP_CHECKPOINT_RESTORE and CAP_SYS_ADMIN it waits as
    // mapped_path() does.
    [[nodiscard]] Result<std::string> path_of(const ebpf::Mapping &mapping);

    // The processes that did not answer when they were read last.
    [[nodiscard]] std::size_t left_alone() const { return left_alone_.size(); }
    // Ends the child if it was idle for so long: it uses memory.
    void rest(Clock::duration unused);

private:
    struct Pause {
        Clock::time_point until;
        Clock::duration length;
    };
    struct Waited {
        Clock::time_point since;
        Clock::duration time{};
    };

    using Question = std::function<Result<>(ForeignReader &)>;
    // ETIMEDOUT: no answer for as long as it is waited for one process.
    Result<ForeignReader::Answer> ask(const Question &question);
    Result<std::vector<ebpf::Mapping>> read_from(const Fd &iterator);
    [[nodiscard]] Result<> may_ask(std::uint32_t tgid);
    Result<std::vector<ebpf::Mapping>> read_each();
    [[nodiscard]] bool is_user_over_limit(std::uint32_t tgid);
    void leave_alone(std::uint32_t tgid, Clock::duration waited);

    ebpf::MappingList &list_;
    Limits limits_;
    std::unique_ptr<ForeignReader> reader_;
    std::vector<std::unique_ptr<ForeignReader>> stuck_;  // killed, but not gone yet
    Clock::time_point used_{};
    std::map<std::uint32_t, Pause> left_alone_;             // by process
    std::map<std::optional<std::uint32_t>, Waited> users_;  // by uid; none: it is not known
};

}  // namespace gpusnoop::processes
