// ranks [--ranks N] [--rounds N] [--only RANK --collectives N] --wait-for-file FILE: a thread for
// each rank, which makes communicators in all ways and communicates in rounds, with other sizes and
// types each time. With --only, a process that is one rank of a communicator: it makes so many
// operations, and when FILE.more is there one more, and when FILE.abort is there it ends the
// communicator. Prints what succeeded, one line for each combination:
//   truth FUNCTION DATATYPE OP COMMUNICATOR RANK NRANKS OPERATIONS BYTES
//   sequence COMMUNICATOR RANK NRANKS COLLECTIVES    of communicators that are there at the end
//   failures N                                       calls that failed
// (OP "-": none; COMMUNICATOR "*": cannot be foreseen) and then "holding" until it is killed.
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "truth.h"

struct Communicator;
// The first members of ncclConfig_t.
struct Config {
    std::size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef;
    unsigned version = 22809;
    int blocking = 1;
};

extern "C" {
int ncclCommInitRank(Communicator **, int, UniqueId, int);
int ncclCommInitRankConfig(Communicator **, int, UniqueId, int, const Config *);
int ncclCommInitRankScalable(Communicator **, int, int, int, UniqueId *, const Config *);
int ncclCommInitAll(Communicator **, int, const int *);
int ncclCommSplit(Communicator *, int, int, Communicator **, const Config *);
int ncclCommShrink(Communicator *, int *, int, Communicator **, const Config *, int);
int ncclCommUserRank(const Communicator *, int *);
int ncclCommCount(const Communicator *, int *);
int ncclCommGetAsyncError(Communicator *, int *);
int ncclGroupStart();
int ncclGroupEnd();
int ncclCommDestroy(Communicator *);
int ncclCommAbort(Communicator *);
int ncclAllReduce(const void *, void *, std::size_t, int, int, Communicator *, void *);
int ncclReduce(const void *, void *, std::size_t, int, int, int, Communicator *, void *);
int ncclBroadcast(const void *, void *, std::size_t, int, int, Communicator *, void *);
int ncclBcast(void *, std::size_t, int, int, Communicator *, void *);
int ncclAllGather(const void *, void *, std::size_t, int, Communicator *, void *);
int ncclSend(const void *, std::size_t, int, int, Communicator *, void *);
}

namespace {

struct Type {
    int number;
    const char *name;
    std::size_t bytes;
};
constexpr std::array<Type, 4> types = {
    Type{0, "int8", 1}, {6, "float16", 2}, {7, "float32", 4}, {8, "float64", 8}};
constexpr std::array<const char *, 6> ops = {"sum", "prod", "max", "min", "avg", "custom"};
constexpr int in_progress = 7;

// Of a communicator: the first rank that makes it may be any.
UniqueId id_of(int round, int kind, bool lonely = false) {
    UniqueId id{};
    for (std::size_t i = 1; i < sizeof(id.internal); i++) {
        id.internal[i] = static_cast<char>(i * 7 + static_cast<std::size_t>(round * 13 + kind * 5));
    }
    id.internal[0] = lonely ? 'L' : 'n';
    id.internal[1] = static_cast<char>(round);
    id.internal[2] = static_cast<char>(kind);
    return id;
}

class Rank {
public:
    Rank(int rank, int nranks, int rounds, Truth &truth)
        : rank_(rank), nranks_(nranks), rounds_(rounds), truth_(truth) {}

    void run() {
        for (int round = 0; round < rounds_; round++) {
            round_ = round;
            Communicator *const made = make();
            communicate(made, as_);
            part(made);
            shrink(made);
            end(made, as_);
            alone();
        }
    }

    // One round of operations on a communicator that must be shown so.
    void communicate(Communicator *communicator, const Shown &as) {
        const Type &type = types[static_cast<std::size_t>(round_) % types.size()];
        const std::size_t op = static_cast<std::size_t>(round_) % ops.size();
        const std::size_t count = 1000 + static_cast<std::size_t>(round_) * 17;
        char buffer = 0;
        const auto add = [&](int result, const char *function, const char *shown_op) {
            if (result == 0 || result == in_progress) {
                truth_.add(function, type.name, shown_op, as, count * type.bytes);
            } else {
                truth_.add_failure();
            }
        };
        const int op_number = op == 5 ? 77 : static_cast<int>(op);
        add(ncclAllReduce(&buffer, &buffer, count, type.number, op_number, communicator, nullptr),
            "ncclAllReduce", ops[op]);
        add(ncclReduce(&buffer, &buffer, count, type.number, op_number, 0, communicator, nullptr),
            "ncclReduce", ops[op]);
        add(ncclBcast(&buffer, count, type.number, 0, communicator, nullptr), "ncclBroadcast", "-");
        add(ncclBroadcast(&buffer, &buffer, count, type.number, 0, communicator, nullptr),
            "ncclBroadcast", "-");
        add(ncclAllGather(&buffer, &buffer, count, type.number, communicator, nullptr),
            "ncclAllGather", "-");
        add(ncclSend(&buffer, count, type.number, 1, communicator, nullptr), "ncclSend", "-");
        // It fails: no bytes, and no step of any communicator.
        add(ncclAllReduce(&buffer, &buffer, count, type.number, op_number, nullptr, nullptr),
            "ncclAllReduce", ops[op]);
    }
    static constexpr std::uint64_t collectives = 5;  // of communicate()

private:
    [[nodiscard]] Shown own(std::uint64_t name) const {
        return {shown(name), std::to_string(rank_), std::to_string(nranks_)};
    }

    // Handles of communicators that were destroyed are given again.
    Communicator *make() {
        UniqueId id = id_of(round_, 0);
        name_ = name_of(id);
        as_ = own(name_);
        Communicator *made = nullptr;
        config_ = Config{};
        switch (round_ % 5) {
            case 0:
                ncclCommInitRank(&made, nranks_, id, rank_);
                break;
            case 1:
                ncclCommInitRankScalable(&made, nranks_, rank_, 1, &id, nullptr);
                break;
            case 2:
                ncclCommInitRankConfig(&made, nranks_, id, rank_, &config_);
                break;
            case 3:
                config_.blocking = 0;
                ncclCommInitRankConfig(&made, nranks_, id, rank_, &config_);
                break;
            default:
                in_a_group(made, id);
                break;
        }
        return made;
    }

    // Two at a time: both handles are written at the end.
    void in_a_group(Communicator *&made, const UniqueId &id) {
        const UniqueId second = id_of(round_, 1);
        Communicator *other = nullptr;
        ncclGroupStart();
        ncclCommInitRank(&made, nranks_, id, rank_);
        ncclCommInitRank(&other, nranks_, second, rank_);
        ncclGroupEnd();
        ncclGroupStart();
        communicate(other, own(name_of(second)));
        ncclGroupEnd();
        end(other, own(name_of(second)));
    }

    // Two splits: by color, the last rank first, sometimes without rank 0; and all in one part, of
    // which no rank has its number at the time when it is split again.
    void part(Communicator *parent) {
        const bool leaves = round_ % 4 == 3 && rank_ == 0;
        const int color = leaves ? -1 : rank_ % 2;
        Communicator *made = nullptr;
        split(parent, color, -rank_, made);
        if (leaves != (made == nullptr)) {
            std::puts("a split without a color made a communicator");
        }
        if (made != nullptr) {
            int place = 0;
            int size = 0;
            for (int other = round_ % 4 == 3 ? 1 : 0; other < nranks_; other++) {
                size += other % 2 == color ? 1 : 0;
                place += other % 2 == color && other > rank_ ? 1 : 0;
            }
            const Shown as{shown(name_of_part(name_, 1, color)), std::to_string(place),
                           std::to_string(size)};
            communicate(made, as);
            end(made, as);
        }
        Communicator *whole = nullptr;
        split(parent, 5, 0, whole);
        const std::uint64_t name = name_of_part(name_, 2, 5);
        Communicator *again = nullptr;
        split(whole, 1, nranks_ - rank_, again);
        const Shown as{shown(name_of_part(name, 1, 1)), std::to_string(nranks_ - 1 - rank_),
                       std::to_string(nranks_)};
        communicate(again, as);
        communicate(whole, own(name));
        end(again, as);
        end(whole, own(name));
        Communicator *failed = nullptr;
        if (ncclCommSplit(nullptr, 0, 0, &failed, nullptr) != 0) {
            truth_.add_failure();
        }
    }

    // The handle is read when the next call of NCCL ends, so it must have a lasting place.
    static void split(Communicator *parent, int color, int key, Communicator *&made) {
        if (ncclCommSplit(parent, color, key, &made, nullptr) == in_progress) {
            int result = in_progress;
            ncclCommGetAsyncError(parent, &result);
        }
    }

    void shrink(Communicator *parent) {
        if (rank_ == 0 || rank_ == nranks_ - 1) {
            return;
        }
        std::array excluded = {nranks_ - 1, 0};
        Communicator *made = nullptr;
        ncclCommShrink(parent, excluded.data(), static_cast<int>(excluded.size()), &made, nullptr,
                       0);
        const Shown as{shown(name_of_shrunk(name_, 1, " 0 " + std::to_string(nranks_ - 1))),
                       std::to_string(rank_ - 1), std::to_string(nranks_ - 2)};
        communicate(made, as);
        end(made, as);
    }

    // Other ranks of its communicator are on no node that is seen: NCCL alone knows the rank of a
    // part, until the program asks for it.
    void alone() {
        const UniqueId id = id_of(round_, 2 + rank_, true);
        Communicator *parent = nullptr;
        ncclCommInitRank(&parent, nranks_ + 10, id, rank_);
        Communicator *made = nullptr;
        split(parent, 1, 3, made);
        const std::string name = shown(name_of_part(name_of(id), 1, 1));
        communicate(made, {name, "unknown", "unknown"});
        int rank = -1;
        int nranks = -1;
        ncclCommUserRank(made, &rank);
        ncclCommCount(made, &nranks);
        const Shown as{name, std::to_string(rank), std::to_string(nranks)};
        communicate(made, as);
        end(made, as, 2);
        end(parent, {shown(name_of(id)), std::to_string(rank_), std::to_string(nranks_ + 10)}, 0);
    }

    // Those of the last round stay.
    void end(Communicator *communicator, const Shown &as, std::uint64_t rounds = 1) const {
        if (round_ + 1 == rounds_) {
            truth_.add_sequence(as, rounds * collectives);
        } else if (round_ % 3 == 0) {
            ncclCommAbort(communicator);
        } else {
            ncclCommDestroy(communicator);
        }
    }

    int rank_;
    int nranks_;
    int rounds_;
    int round_ = 0;
    std::uint64_t name_ = 0;  // of this round's communicator
    Shown as_;
    Config config_;
    Truth &truth_;
};

// One thread has all ranks.
void communicate_as_all(Truth &truth) {
    constexpr int devices = 7;
    std::array<Communicator *, devices> all{};
    ncclCommInitAll(all.data(), devices, nullptr);
    for (int rank = 0; rank < devices; rank++) {
        Rank(rank, devices, 1, truth)
            .communicate(all[static_cast<std::size_t>(rank)],
                         {"*", std::to_string(rank), std::to_string(devices)});
    }
}

void wait_for(const std::string &file) {
    while (!file.empty() && ::access(file.c_str(), F_OK) != 0) {
        ::usleep(1000);
    }
}

void be_only(int rank, int nranks, int operations, const std::string &file) {
    const UniqueId id = id_of(0, 100, true);
    Communicator *communicator = nullptr;
    ncclCommInitRank(&communicator, nranks, id, rank);
    char buffer = 0;
    const auto all_reduce = [&] {
        ncclAllReduce(&buffer, &buffer, 1, 7, 0, communicator, nullptr);
    };
    for (int i = 0; i < operations; i++) {
        all_reduce();
        ncclSend(&buffer, 1, 7, 0, communicator, nullptr);
    }
    std::printf("communicator %s\n", shown(name_of(id)).c_str());
    std::puts("behind");
    wait_for(file + ".more");
    all_reduce();
    std::puts("ahead");
    wait_for(file + ".abort");
    ncclCommAbort(communicator);
}

}  // namespace

int main(int argc, char **argv) {
    int ranks = 4;
    int rounds = 100;
    int only = -1;
    int collectives = 0;
    std::string file;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string_view flag = argv[i];
        if (flag == "--ranks") {
            ranks = std::atoi(argv[i + 1]);
        } else if (flag == "--rounds") {
            rounds = std::atoi(argv[i + 1]);
        } else if (flag == "--only") {
            only = std::atoi(argv[i + 1]);
        } else if (flag == "--collectives") {
            collectives = std::atoi(argv[i + 1]);
        } else if (flag == "--wait-for-file") {
            file = argv[i + 1];
        }
    }
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::puts("ready");
    wait_for(file);
    if (only >= 0) {
        be_only(only, ranks, collectives, file);
    } else {
        Truth truth;
        {
            std::vector<std::jthread> threads;
            for (int rank = 0; rank < ranks; rank++) {
                threads.emplace_back([&, rank] { Rank(rank, ranks, rounds, truth).run(); });
            }
        }
        communicate_as_all(truth);
        truth.print();
    }
    std::puts("holding");
    for (;;) {
        ::pause();
    }
}
