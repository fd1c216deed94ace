// Lists the mappings of other processes, and never waits long for one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/processes/process_reader.h"

namespace gpusnoop::processes {

// The kernel lists the mappings of a process under the process's own lock: see ProcessReader. Of a
// process with thousands of mappings, the last ones are left out (bpf/processes/mappings.h), and of
// a user with many such processes more of them. Used by one thread.
class MappingReader {
public:
    // `list` must outlive it.
    explicit MappingReader(ebpf::MappingList &list) : list_(list) {}

    // Of one process. A process that has ended has no mappings. ETIMEDOUT: it does not answer, or
    // it is left alone; try again later.
    [[nodiscard]] Result<std::vector<ebpf::Mapping>> read(std::uint32_t tgid);
    // Of all processes that answer, except the exporter's own children. On kernels before 6.1,
    // which cannot list one process alone, one that does not answer is in the way of all:
    // ETIMEDOUT.
    [[nodiscard]] Result<std::vector<ebpf::Mapping>> read_all();
    // The processes of which read_all() has not listed all mappings: they did not answer, their
    // user's share of time was used up, or there were too many. They may map any file.
    [[nodiscard]] const std::set<std::uint32_t> &unread() const { return unread_; }

    // The path of the mapped file as the kernel's own link to it shows it: from the exporter's root
    // if the file can be reached from there, else from the root of the process's mount namespace.
    // Without CAP_CHECKPOINT_RESTORE and CAP_SYS_ADMIN, as /proc/PID/maps shows it. EACCES: it has
    // none. ETIMEDOUT as above.
    [[nodiscard]] Result<std::string> path_of(const ebpf::Mapping &mapping);

    // The processes that did not answer when they were read last.
    [[nodiscard]] std::size_t left_alone() const { return reader_.left_alone(); }
    [[nodiscard]] bool is_left_alone(std::uint32_t tgid) const {
        return reader_.is_left_alone(tgid);
    }
    // Ends the child if it was idle for so long: it uses memory.
    void rest(ProcessReader::Clock::duration unused) { reader_.rest(unused); }

private:
    class Room;  // for mappings

    Result<std::vector<ebpf::Mapping>> read(std::uint32_t tgid, Room &room);
    Result<std::vector<ebpf::Mapping>> read_from(const Fd &iterator, Room &room,
                                                 const WorkLimit &time);
    Result<std::vector<ebpf::Mapping>> read_each();

    ebpf::MappingList &list_;
    ProcessReader reader_;
    std::set<std::uint32_t> unread_;
};

}  // namespace gpusnoop::processes
