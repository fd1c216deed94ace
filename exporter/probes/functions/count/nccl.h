// The NCCL communicators of a process: which there are, its ranks there, and their operations.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bpf/functions/functions.h"
#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/functions/count/nccl_functions.h"

namespace gpusnoop::probes {

// Values of labels.
struct NcclOperation {
    std::string datatype;      // "float32"; "unknown"
    std::string op;            // "sum"; "custom"; empty: the function reduces nothing
    std::string communicator;  // "unknown", as below, if its creation was not seen
    std::string rank;
    std::string nranks;
    auto operator<=>(const NcclOperation &) const = default;
};

struct NcclCount {
    NcclOperation operation;
    // The number of elements times their size, from the call's arguments. Nothing for an unknown
    // type.
    std::optional<std::uint64_t> bytes;
};

class NcclCommunicators {
public:
    struct Member {
        std::uint64_t number = 0;  // of the process's communicators
        NcclHash hash = 0;
        std::optional<std::uint32_t> rank{};
        std::optional<std::uint32_t> nranks{};
        std::uint64_t made_ns = 0;
        // Collective operations that have returned: all ranks make the same ones.
        std::uint64_t sequence = 0;
        std::uint64_t moved_ns = 0;  // when the last of them returned, or it was made
        std::uint32_t splits = 0;
        std::uint32_t shrinks = 0;
        // Of a part, until its rank is known: the split, and the rank of the parent.
        std::optional<std::pair<NcclSplits::Split, std::uint32_t>> part_of{};
    };

    void on_words(const func_words_record &record);
    void on_begin(const NcclFunction &function, const func_arguments_record &call,
                  NcclSplits &splits);
    // Reads a successful call. Nothing if it does not communicate. `process` gives a text that no
    // other process has, on any node.
    std::optional<NcclCount> take(const NcclFunction &function, const func_arguments_record &call,
                                  const NcclSplits &splits,
                                  const std::function<std::string()> &process);

    // The place of a call in flight; nothing if it does not communicate, or if its communicator is
    // not known. `argument` are as in func_arguments_record.
    [[nodiscard]] std::optional<NcclPlace> place(const NcclFunction &function,
                                                 std::span<const __u64> argument) const;

    [[nodiscard]] const std::unordered_map<std::uint64_t, Member> &members() const {
        return members_;
    }
    // The hashes of communicators that have ended, since the last time.
    [[nodiscard]] std::vector<NcclHash> take_ended();

private:
    using Words = std::array<std::uint64_t, FUNC_WORDS>;

    void init_rank(const NcclFunction &function, const func_arguments_record &call);
    void init_all(const func_arguments_record &call, const std::string &process);
    void split(Member *parent, const func_arguments_record &call, const NcclSplits &splits);
    void shrink(Member *parent, const func_arguments_record &call);
    void learn(const NcclFunction &function, const func_arguments_record &call);
    void end(const NcclFunction &function, const func_arguments_record &call);
    // The communicator of the call, with its rank if that is known by now; null: not known.
    Member *member_of(const NcclFunction &function, const func_arguments_record &call,
                      const NcclSplits &splits);
    // Its handle is where argument `at` points to, or will be there.
    void made(Member member, const func_arguments_record &call, std::uint8_t at);
    void put(std::uint64_t handle, Member member);
    void erase(std::unordered_map<std::uint64_t, Member>::iterator member);
    // The array that the call is about.
    std::optional<Words> take_words(const func_arguments_record &call);

    std::unordered_map<std::uint64_t, Member> members_;  // by handle
    std::uint64_t made_ = 0;
    // By the address of their handles, which are not there yet.
    std::map<std::uint64_t, Member> awaited_;
    // Handles that came before the record of their call, by address and time; the same of arrays,
    // by thread.
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> written_;
    std::map<std::pair<std::uint32_t, std::uint64_t>, Words> arrays_;
    std::vector<NcclHash> ended_;
};

}  // namespace gpusnoop::probes
