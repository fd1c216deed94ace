// NCCL's functions and their arguments, by NVIDIA's nccl.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace gpusnoop::probes {

// The positions of a function's arguments, from 1 on; 0: it has no such argument.
struct NcclFunction {
    enum class Kind : std::uint8_t {
        collective,
        point_to_point,
        // Of communicators.
        init_rank,
        init_all,
        split,
        shrink,
        user_rank,
        ranks,
        end,
    };
    Kind kind = Kind::collective;
    std::uint8_t count = 0;  // of elements
    std::uint8_t datatype = 0;
    std::uint8_t op = 0;
    std::uint8_t communicator = 0;
    std::uint8_t nranks = 0;
    std::uint8_t rank = 0;
    std::uint8_t pointer = 1;  // to what the call writes
    // An ncclUniqueId is passed by value; else init_rank gets a pointer to it.
    bool id_by_value = false;

    [[nodiscard]] bool communicates() const {
        return kind == Kind::collective || kind == Kind::point_to_point;
    }
    bool operator==(const NcclFunction &) const = default;
};

// By its symbol, or by the symbol for profilers (pncclAllReduce). Nothing for functions that are
// not about communicators, and for ncclBcast, which calls ncclBroadcast.
[[nodiscard]] std::optional<NcclFunction> nccl_function(std::string_view symbol);

// The function's part of the attach cookie, and of its options in the kernel
// (bpf/functions/functions.h).
[[nodiscard]] std::uint64_t cookie_flags(const NcclFunction &function);
[[nodiscard]] std::uint32_t option_flags(const NcclFunction &function);

// ncclDataType_t, by number; nothing for an unknown one.
struct NcclDatatype {
    std::string_view name;
    std::uint64_t bytes;
};
[[nodiscard]] const NcclDatatype *nccl_datatype(std::uint32_t number);

// ncclRedOp_t, by number. Higher numbers are defined by programs: "custom".
[[nodiscard]] std::string_view nccl_op(std::uint32_t number);

// The hash of a communicator; 0: not known. docs/functions.md says how it is made: all nodes and
// versions must agree on it.
using NcclHash = std::uint64_t;

// The first 8 of its digits; "unknown".
[[nodiscard]] std::string shown(NcclHash hash);

// Of a rank, or a number of ranks; "unknown".
[[nodiscard]] std::string shown(const std::optional<std::uint32_t> &value);

// 64 bits of FNV-1a. bpf/functions/nccl.bpf.h has the same, for the id of a communicator.
[[nodiscard]] NcclHash nccl_hash(std::string_view bytes);

// `number`: of the splits, or shrinks, of the parent, from 1 on. 0 if the parent's is.
[[nodiscard]] NcclHash split_hash(NcclHash parent, std::uint32_t number, std::int32_t color);
[[nodiscard]] NcclHash shrink_hash(NcclHash parent, std::uint32_t number,
                                   std::span<const std::int32_t> excluded);

struct NcclRank {
    std::uint32_t rank = 0;
    std::uint32_t nranks = 0;
    bool operator==(const NcclRank &) const = default;
};

// The splits whose ranks are on this node, of all processes.
class NcclSplits {
public:
    struct Split {
        NcclHash parent = 0;
        std::uint32_t number = 0;
        auto operator<=>(const Split &) const = default;
    };
    // A rank of the parent asks for a part. All ranks do before one of them gets it.
    void begin(Split split, NcclRank parent, std::int32_t color, std::int32_t key);
    // What the parent's rank is there: parts have the ranks of one color, ordered by key and the
    // rank before. Nothing if not all ranks of the parent have been seen, or without a color.
    [[nodiscard]] std::optional<NcclRank> rank(Split split, std::uint32_t parent_rank) const;

private:
    struct Asked {
        std::uint64_t at = 0;  // its place in the order of the splits
        std::uint32_t nranks = 0;
        std::map<std::uint32_t, std::pair<std::int32_t, std::int32_t>> by_rank;  // color and key
    };
    std::map<Split, Asked> splits_;
    std::map<std::uint64_t, Split> order_;
    std::uint64_t begun_ = 0;
};

}  // namespace gpusnoop::probes
