#include "exporter/processes/mapping_reader.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <iterator>
#include <optional>
#include <string_view>

#include "bpf/processes/mappings.h"
#include "exporter/processes/file_opener.h"
#include "exporter/processes/proc.h"
#include "exporter/processes/user_shares.h"

namespace gpusnoop::processes {

namespace {

// For all processes together: longer, and each is asked by itself, with a limit of its own.
constexpr std::chrono::seconds longest_for_all{2};

bool is_timeout(const Result<std::vector<ebpf::Mapping>> &result) {
    return !result && result.error().code == ETIMEDOUT;
}

// Finds a mapping in pieces of /proc/PID/maps, whose lines are as long as paths.
class PathInMaps {
public:
    explicit PathInMaps(std::uint64_t start) : start_(start) {}

    // Whether it may be in the next piece.
    bool use(std::string_view piece) {
        while (!path_ && !piece.empty()) {
            const std::size_t end = piece.find('\n');
            line_ += piece.substr(0, end);
            if (end == std::string_view::npos) {
                break;
            }
            piece.remove_prefix(end + 1);
            look_at(line_);
            line_.clear();
        }
        return !path_;
    }
    [[nodiscard]] Result<std::string> path() const {
        return path_ ? path_in_link(*path_) : fail("the mapping is gone", ESRCH);
    }

private:
    void look_at(std::string_view line) {
        std::uint64_t start = 0;  // written with eight digits at least
        const std::size_t path = line.find('/');
        if (std::from_chars(line.data(), line.data() + line.size(), start, 16).ec == std::errc{} &&
            start == start_ && path != std::string_view::npos) {
            path_ = line.substr(path);
        }
    }

    std::uint64_t start_;
    std::string line_;
    std::optional<std::string> path_;
};

}  // namespace

// A user can have many processes, each with many mappings. Of those that one has beyond the first
// ones, only so many are kept of each user; the processes that have more are `unread`.
class MappingReader::Room {
public:
    explicit Room(std::set<std::uint32_t> &unread) : unread_(unread) {}

    [[nodiscard]] bool has(const ebpf::Mapping &mapping) {
        if (mapping.tgid != tgid_) {
            tgid_ = mapping.tgid;
            of_process_ = 0;
        }
        if (++of_process_ <= of_each_process) {
            return true;
        }
        if (of_process_ == of_each_process + 1) {
            user_ = sharing_user_of(tgid_);
        }
        const bool is_kept = of_users_.take(user_);
        if (!is_kept || of_process_ == MAPPINGS_OF_PROCESS) {
            unread_.insert(tgid_);
        }
        return is_kept;
    }

private:
    static constexpr std::size_t of_each_process = 512;
    static constexpr std::size_t of_each_user = 65'536;

    std::set<std::uint32_t> &unread_;
    std::uint32_t tgid_ = 0;
    std::size_t of_process_ = 0;
    std::optional<std::uint32_t> user_;
    UserQuota of_users_{of_each_user};
};

Result<std::vector<ebpf::Mapping>> MappingReader::read(std::uint32_t tgid) {
    std::set<std::uint32_t> cut;  // the caller has what there is room for
    Room room(cut);
    return read(tgid, room);
}

Result<std::vector<ebpf::Mapping>> MappingReader::read(std::uint32_t tgid, Room &room) {
    return reader_.about(tgid, [&]() -> Result<std::vector<ebpf::Mapping>> {
        const auto iterator = list_.iterate(tgid);
        if (!iterator) {
            return iterator.error().code == ESRCH
                       ? Result<std::vector<ebpf::Mapping>>()
                       : Result<std::vector<ebpf::Mapping>>(tl::unexpected(iterator.error()));
        }
        return read_from(*iterator, room, WorkLimit());
    });
}

Result<std::vector<ebpf::Mapping>> MappingReader::read_all() {
    unread_.clear();
    if (reader_.left_alone() == 0 || !list_.can_list_one()) {
        const auto iterator = list_.iterate(std::nullopt);
        if (!iterator) {
            return tl::unexpected(iterator.error());
        }
        Room room(unread_);
        auto mappings =
            read_from(*iterator, room,
                      list_.can_list_one() ? WorkLimit().at_most(longest_for_all) : WorkLimit());
        if (!is_timeout(mappings) || !list_.can_list_one()) {
            return mappings;
        }
    }
    return read_each();
}

Result<std::vector<ebpf::Mapping>> MappingReader::read_each() {
    std::vector<std::uint32_t> running = all_processes();
    reader_.forget_all_but(running);
    // Those that did not answer last time may use up their user's share of time.
    std::ranges::stable_partition(
        running, [this](std::uint32_t tgid) { return !reader_.is_left_alone(tgid); });
    unread_.clear();
    std::vector<ebpf::Mapping> all;
    Room room(unread_);
    for (const std::uint32_t tgid : running) {
        auto mappings = read(tgid, room);
        if (mappings) {
            std::ranges::move(*mappings, std::back_inserter(all));
        } else if (is_timeout(mappings)) {
            unread_.insert(tgid);
        } else {
            return mappings;
        }
    }
    return all;
}

Result<std::string> MappingReader::path_of(const ebpf::Mapping &mapping) {
    return reader_.about(mapping.tgid, [&]() -> Result<std::string> {
        const auto link = reader_.read_link(mapped_link(mapping));
        if (link) {
            return path_in_link(*link);
        }
        if (link.error().code == EACCES || link.error().code == EPERM) {
            PathInMaps maps(mapping.start);
            const auto read =
                reader_.read_pieces("/proc/" + std::to_string(mapping.tid) + "/maps",
                                    [&](std::string_view piece) { return maps.use(piece); });
            return read ? maps.path() : tl::unexpected(read.error());
        }
        return link.error().code == ENOENT ? fail("the mapping is gone", ESRCH)
                                           : tl::unexpected(link.error());
    });
}

Result<std::vector<ebpf::Mapping>> MappingReader::read_from(const Fd &iterator, Room &room,
                                                            const WorkLimit &time) {
    std::vector<ebpf::Mapping> mappings;
    std::vector<std::byte> rest;
    for (;;) {
        if (time.is_reached()) {
            return fail("the mappings of all processes take too long to list", ETIMEDOUT);
        }
        const auto answer =
            reader_.ask([&](ForeignReader &reader) { return reader.read_on(iterator.get()); });
        if (!answer) {
            if (answer.error().code == EAGAIN || answer.error().code == EINTR) {
                continue;
            }
            return fail_in("list mappings", answer.error());
        }
        if (answer->number == 0) {
            return rest.empty() ? Result<std::vector<ebpf::Mapping>>(std::move(mappings))
                                : fail("list mappings: a record is incomplete");
        }
        const auto got = reader_.buffer().first(answer->number);
        rest.insert(rest.end(), got.begin(), got.end());
        const auto kept = static_cast<std::ptrdiff_t>(mappings.size());
        rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(
                                                    ebpf::MappingList::take(rest, mappings)));
        mappings.erase(
            std::remove_if(mappings.begin() + kept, mappings.end(),
                           [&](const ebpf::Mapping &mapping) { return !room.has(mapping); }),
            mappings.end());
    }
}

}  // namespace gpusnoop::processes
