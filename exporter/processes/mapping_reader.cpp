#include "exporter/processes/mapping_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "exporter/processes/file_opener.h"
#include "exporter/processes/proc.h"

namespace gpusnoop::processes {

namespace {

// Children that were killed and do not end. A thread that waits for a process's lock can be killed,
// so there should be none.
constexpr std::size_t most_stuck = 4;

// A child that has no CPU on a busy machine says nothing of the process that it reads.
constexpr std::chrono::seconds patience_with_cpu{2};

bool is_timeout(const Result<std::vector<ebpf::Mapping>> &result) {
    return !result && result.error().code == ETIMEDOUT;
}

}  // namespace

Result<> MappingReader::may_ask(std::uint32_t tgid) {
    const auto left = left_alone_.find(tgid);
    if (left != left_alone_.end() && Clock::now() < left->second.until) {
        return fail("it does not answer, and is left alone for now", ETIMEDOUT);
    }
    if (!users_.empty() && is_user_over_limit(tgid)) {
        return fail("processes of its user do not answer, and are left alone for now", ETIMEDOUT);
    }
    return {};
}

Result<std::vector<ebpf::Mapping>> MappingReader::read(std::uint32_t tgid) {
    if (auto allowed = may_ask(tgid); !allowed) {
        return tl::unexpected(allowed.error());
    }
    const auto iterator = list_.iterate(tgid);
    if (!iterator) {
        left_alone_.erase(tgid);
        return iterator.error().code == ESRCH
                   ? Result<std::vector<ebpf::Mapping>>()
                   : Result<std::vector<ebpf::Mapping>>(tl::unexpected(iterator.error()));
    }
    const auto began = Clock::now();
    auto mappings = read_from(*iterator);
    if (is_timeout(mappings)) {
        leave_alone(tgid, Clock::now() - began);
    } else {
        left_alone_.erase(tgid);
    }
    return mappings;
}

Result<std::vector<ebpf::Mapping>> MappingReader::read_all() {
    if (left_alone_.empty() || !list_.can_list_one()) {
        const auto iterator = list_.iterate(std::nullopt);
        if (!iterator) {
            return tl::unexpected(iterator.error());
        }
        auto mappings = read_from(*iterator);
        if (!is_timeout(mappings) || !list_.can_list_one()) {
            return mappings;
        }
    }
    return read_each();
}

Result<std::vector<ebpf::Mapping>> MappingReader::read_each() {
    const std::vector<std::uint32_t> running = all_processes();
    std::erase_if(left_alone_, [&](const auto &left) {
        return std::ranges::find(running, left.first) == running.end();
    });
    std::vector<ebpf::Mapping> all;
    for (const std::uint32_t tgid : running) {
        auto mappings = read(tgid);
        if (mappings) {
            std::ranges::move(*mappings, std::back_inserter(all));
        } else if (!is_timeout(mappings)) {
            return mappings;
        }
    }
    return all;
}

Result<std::string> MappingReader::path_of(const ebpf::Mapping &mapping) {
    if (auto allowed = may_ask(mapping.tgid); !allowed) {
        return tl::unexpected(allowed.error());
    }
    const auto began = Clock::now();
    const auto answer =
        ask([&](ForeignReader &reader) { return reader.read_link(mapped_link(mapping)); });
    if (answer) {
        const auto *const text = reinterpret_cast<const char *>(reader_->buffer().data());
        return path_in_link({text, answer->number});
    }
    switch (answer.error().code) {
        case ETIMEDOUT:
            leave_alone(mapping.tgid, Clock::now() - began);
            break;
        case EACCES:
        case EPERM:
            return mapped_path(mapping);
        case ENOENT:
            return fail("the mapping is gone", ESRCH);
        default:
            break;
    }
    return tl::unexpected(answer.error());
}

Result<ForeignReader::Answer> MappingReader::ask(const Question &question) {
    std::erase_if(stuck_, [](const auto &reader) { return reader->end(); });
    if (!reader_) {
        if (stuck_.size() >= most_stuck) {
            return fail("too many processes that read do not end", ETIMEDOUT);
        }
        auto reader = ForeignReader::start();
        if (!reader) {
            return tl::unexpected(reader.error());
        }
        reader_ = *std::move(reader);
    }
    used_ = Clock::now();
    if (auto asked = question(*reader_); !asked) {
        reader_.reset();
        return tl::unexpected(asked.error());
    }
    const auto patience = std::chrono::ceil<std::chrono::milliseconds>(limits_.patience);
    auto answer = reader_->wait(patience);
    while (!answer && is_runnable(static_cast<std::uint32_t>(reader_->pid())) &&
           Clock::now() - used_ < patience_with_cpu) {
        answer = reader_->wait(patience);
    }
    if (!answer) {
        if (!reader_->end()) {
            stuck_.push_back(std::move(reader_));
        }
        reader_.reset();
        return fail("a process does not answer", ETIMEDOUT);
    }
    if (answer->error == EPIPE) {
        reader_.reset();
    }
    return answer->error == 0 ? Result<ForeignReader::Answer>(*std::move(answer))
                              : fail_errno("read of a process", answer->error);
}

Result<std::vector<ebpf::Mapping>> MappingReader::read_from(const Fd &iterator) {
    std::vector<ebpf::Mapping> mappings;
    std::vector<std::byte> rest;
    for (;;) {
        const auto answer =
            ask([&](ForeignReader &reader) { return reader.read_on(iterator.get()); });
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
        const auto got = reader_->buffer().first(answer->number);
        rest.insert(rest.end(), got.begin(), got.end());
        rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(
                                                    ebpf::MappingList::take(rest, mappings)));
    }
}

bool MappingReader::is_user_over_limit(std::uint32_t tgid) {
    const auto now = Clock::now();
    std::erase_if(users_,
                  [&](const auto &user) { return now - user.second.since >= limits_.window; });
    const auto user = users_.find(user_of(tgid));
    return user != users_.end() && user->second.time >= limits_.of_user;
}

void MappingReader::leave_alone(std::uint32_t tgid, Clock::duration waited) {
    const auto now = Clock::now();
    users_.try_emplace(user_of(tgid), Waited{.since = now}).first->second.time += waited;
    const auto [left, is_new] = left_alone_.try_emplace(tgid);
    left->second.length =
        is_new ? limits_.first_pause : std::min(2 * left->second.length, limits_.longest_pause);
    left->second.until = now + left->second.length;
}

void MappingReader::rest(Clock::duration unused) {
    if (reader_ && Clock::now() - used_ >= unused) {
        reader_.reset();
    }
}

}  // namespace gpusnoop::processes
