#include "exporter/probes/functions/count/nccl.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace gpusnoop::probes {

namespace {

using Kind = NcclFunction::Kind;

// Over this limit of a process's communicators, further ones are unknown.
constexpr std::size_t max_communicators = 4'096;
// The same for what waits for another record of the same process.
constexpr std::size_t max_waiting = 4'096;

std::uint64_t argument(const func_arguments_record &arguments, std::uint8_t position) {
    return position == 0 ? 0 : arguments.argument[position - 1];
}

// An int or enum: the rest of the register is undefined.
std::uint32_t number(const func_arguments_record &arguments, std::uint8_t position) {
    return static_cast<std::uint32_t>(argument(arguments, position));
}

std::uint64_t began_ns(const func_arguments_record &call) {
    return call.call.head.ended_ns - call.call.duration_ns;
}

// Notes the rank of a part, if the ranks of its parent have all been seen.
void settle(NcclCommunicators::Member &member, const NcclSplits &splits) {
    const auto rank =
        member.part_of ? splits.rank(member.part_of->first, member.part_of->second) : std::nullopt;
    if (rank) {
        member.rank = rank->rank;
        member.nranks = rank->nranks;
        member.part_of.reset();
    }
}

// A place for one more. That many wait only where records were lost.
void make_room(auto &waiting) {
    if (waiting.size() >= max_waiting) {
        waiting.clear();
    }
}

}  // namespace

// The ring of these records is read before the ring of calls: a record is often there before that
// of the call that it belongs to, and so are those of later calls.
void NcclCommunicators::on_words(const func_words_record &record) {
    Words words;
    std::ranges::copy(record.word, words.begin());
    const std::uint64_t at = record.head.ended_ns;
    if (record.kind == FUNC_WORDS_ARRAY) {
        make_room(arrays_);
        arrays_.insert_or_assign({record.tid, at}, words);
    } else if (auto awaited = awaited_.extract(record.address)) {
        put(words.front(), std::move(awaited.mapped()));
    } else {
        make_room(written_);
        written_.insert_or_assign({record.address, at}, words.front());
    }
}

void NcclCommunicators::on_begin(const NcclFunction &function, const func_arguments_record &call,
                                 NcclSplits &splits) {
    if (function.kind != Kind::split) {
        return;
    }
    const Member *const parent = member_of(function, call, splits);
    if (parent != nullptr && parent->rank && parent->nranks) {
        splits.begin({parent->hash, parent->splits + 1}, {*parent->rank, *parent->nranks},
                     static_cast<std::int32_t>(number(call, 2)),
                     static_cast<std::int32_t>(number(call, 3)));
    }
}

NcclCommunicators::Member *NcclCommunicators::member_of(const NcclFunction &function,
                                                        const func_arguments_record &call,
                                                        const NcclSplits &splits) {
    const auto found = members_.find(argument(call, function.communicator));
    if (found == members_.end()) {
        return nullptr;
    }
    settle(found->second, splits);
    return &found->second;
}

void NcclCommunicators::put(std::uint64_t handle, Member member) {
    // Another one may have had the handle before.
    if (const auto former = members_.find(handle); former != members_.end()) {
        erase(former);
    }
    if (members_.size() < max_communicators) {
        member.number = ++made_;
        members_.emplace(handle, std::move(member));
    }
}

void NcclCommunicators::erase(std::unordered_map<std::uint64_t, Member>::iterator member) {
    if (member->second.hash != 0 && ended_.size() < max_communicators) {
        ended_.push_back(member->second.hash);
    }
    members_.erase(member);
}

std::vector<NcclHash> NcclCommunicators::take_ended() {
    return std::exchange(ended_, {});
}

void NcclCommunicators::made(Member member, const func_arguments_record &call, std::uint8_t at) {
    const std::uint64_t address = argument(call, at);
    member.made_ns = call.call.head.ended_ns;
    member.moved_ns = member.made_ns;
    if (call.has_pointed == 0) {
        return;
    }
    if (call.pointed != 0) {
        awaited_.erase(address);
        return put(call.pointed, std::move(member));
    }
    const auto early = written_.lower_bound({address, member.made_ns});
    if (early != written_.end() && early->first.first == address) {
        const std::uint64_t handle = early->second;
        written_.erase(early);
        return put(handle, std::move(member));
    }
    make_room(awaited_);
    awaited_.insert_or_assign(address, std::move(member));
}

void NcclCommunicators::init_rank(const NcclFunction &function, const func_arguments_record &call) {
    const std::uint32_t rank = number(call, function.rank);
    const std::uint32_t nranks = number(call, function.nranks);
    Member member{.hash = call.argument[FUNC_ARGUMENTS - 1]};
    if (rank < nranks) {
        member.rank = rank;
        member.nranks = nranks;
    } else {
        member.hash = 0;  // it makes no sense
    }
    made(std::move(member), call, function.pointer);
}

std::optional<NcclCommunicators::Words> NcclCommunicators::take_words(
    const func_arguments_record &call) {
    const auto words = arrays_.extract(std::pair(call.call.tid, call.call.head.ended_ns));
    return words ? std::optional(words.mapped()) : std::nullopt;
}

void NcclCommunicators::init_all(const func_arguments_record &call, const std::string &process) {
    const std::uint32_t nranks = number(call, 2);
    const auto words = take_words(call);
    if (!words) {
        return;
    }
    const NcclHash hash =
        nccl_hash("all " + process + " " + std::to_string(call.call.head.ended_ns));
    for (std::uint32_t rank = 0; rank < std::min<std::uint32_t>(nranks, FUNC_WORDS); rank++) {
        if ((*words)[rank] != 0) {
            put((*words)[rank], {.hash = hash,
                                 .rank = rank,
                                 .nranks = nranks,
                                 .made_ns = call.call.head.ended_ns,
                                 .moved_ns = call.call.head.ended_ns});
        }
    }
}

void NcclCommunicators::split(Member *parent, const func_arguments_record &call,
                              const NcclSplits &splits) {
    const auto color = static_cast<std::int32_t>(number(call, 2));
    Member member;
    if (parent != nullptr) {
        parent->splits++;
        member.hash = split_hash(parent->hash, parent->splits, color);
        if (parent->rank) {
            member.part_of = {{parent->hash, parent->splits}, *parent->rank};
            settle(member, splits);
        }
    }
    if (color >= 0) {
        made(std::move(member), call, 4);
    }
}

void NcclCommunicators::shrink(Member *parent, const func_arguments_record &call) {
    const std::uint32_t count = number(call, 3);
    const auto words = take_words(call);
    Member member;
    if (parent != nullptr && words && count <= FUNC_WORDS * 2) {
        std::array<std::int32_t, std::size_t{2} * FUNC_WORDS> numbers{};
        std::memcpy(numbers.data(), words->data(), sizeof(numbers));
        const auto excluded = std::span(numbers).first(count);
        parent->shrinks++;
        member.hash = shrink_hash(parent->hash, parent->shrinks, excluded);
        if (parent->rank && parent->nranks && count < *parent->nranks) {
            const auto own = static_cast<std::int32_t>(*parent->rank);
            const auto below =
                std::ranges::count_if(excluded, [&](std::int32_t rank) { return rank < own; });
            if (below <= own) {
                member.rank = *parent->rank - static_cast<std::uint32_t>(below);
                member.nranks = *parent->nranks - count;
            }
        }
    }
    made(std::move(member), call, 4);
}

// The program asked NCCL for its rank, or for the number of ranks.
void NcclCommunicators::learn(const NcclFunction &function, const func_arguments_record &call) {
    if (call.has_pointed == 0) {
        return;
    }
    const std::uint64_t handle = argument(call, function.communicator);
    if (!members_.contains(handle)) {
        put(handle, {.made_ns = call.call.head.ended_ns, .moved_ns = call.call.head.ended_ns});
    }
    if (const auto member = members_.find(handle); member != members_.end()) {
        auto &known =
            function.kind == Kind::user_rank ? member->second.rank : member->second.nranks;
        known = static_cast<std::uint32_t>(call.pointed);
    }
}

// Another thread may have got the handle before this call returned.
void NcclCommunicators::end(const NcclFunction &function, const func_arguments_record &call) {
    const auto member = members_.find(argument(call, function.communicator));
    if (member != members_.end() && member->second.made_ns < began_ns(call)) {
        erase(member);
    }
}

std::optional<NcclPlace> NcclCommunicators::place(const NcclFunction &function,
                                                  std::span<const __u64> argument) const {
    if (!function.communicates() || function.communicator > argument.size()) {
        return std::nullopt;
    }
    const auto member = members_.find(argument[function.communicator - 1U]);
    if (member == members_.end()) {
        return std::nullopt;
    }
    const Member &of = member->second;
    return NcclPlace{.communicator = of.number,
                     .hash = of.hash == 0 ? "" : shown(of.hash),
                     .rank = of.rank,
                     .nranks = of.nranks,
                     .sequence = of.sequence + (function.kind == Kind::collective ? 1 : 0)};
}

std::optional<NcclCount> NcclCommunicators::take(const NcclFunction &function,
                                                 const func_arguments_record &call,
                                                 const NcclSplits &splits,
                                                 const std::function<std::string()> &process) {
    switch (function.kind) {
        case Kind::init_rank:
            init_rank(function, call);
            return std::nullopt;
        case Kind::init_all:
            init_all(call, process());
            return std::nullopt;
        case Kind::split:
            split(member_of(function, call, splits), call, splits);
            return std::nullopt;
        case Kind::shrink:
            shrink(member_of(function, call, splits), call);
            return std::nullopt;
        case Kind::user_rank:
        case Kind::ranks:
            learn(function, call);
            return std::nullopt;
        case Kind::end:
            end(function, call);
            return std::nullopt;
        case Kind::collective:
        case Kind::point_to_point:
            break;
    }
    NcclCount count{.operation = {.datatype = "unknown",
                                  .op = "",
                                  .communicator = "unknown",
                                  .rank = "unknown",
                                  .nranks = "unknown"},
                    .bytes = std::nullopt};
    if (Member *const member = member_of(function, call, splits)) {
        if (function.kind == Kind::collective) {
            member->sequence++;
            member->moved_ns = std::max(member->moved_ns, std::uint64_t{call.call.head.ended_ns});
        }
        count.operation.communicator = shown(member->hash);
        count.operation.rank = shown(member->rank);
        count.operation.nranks = shown(member->nranks);
    }
    if (function.op != 0) {
        count.operation.op = nccl_op(number(call, function.op));
    }
    if (const auto *const type = nccl_datatype(number(call, function.datatype))) {
        const std::uint64_t elements = argument(call, function.count);
        count.operation.datatype = type->name;
        // The limit that a counter of the page shows exactly: a larger count is garbage.
        constexpr std::uint64_t most = std::uint64_t{1} << 53;
        if (elements <= most / type->bytes) {
            count.bytes = elements * type->bytes;
        }
    }
    return count;
}

}  // namespace gpusnoop::probes
