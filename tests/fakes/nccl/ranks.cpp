// ranks [--ranks N] [--rounds N] --wait-for-file FILE: a thread for each rank, which communicates
// in rounds, with other sizes and types each time. Prints what succeeded, one line for each
// combination:
//   truth FUNCTION DATATYPE OP RANK NRANKS OPERATIONS BYTES
// (OP "-": none) and then "holding" until it is killed.
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

namespace {

struct UniqueId {
    char internal[128];
};
struct Communicator;

}  // namespace

extern "C" {
int ncclCommInitRank(Communicator **, int, UniqueId, int);
int ncclCommInitRankScalable(Communicator **, int, int, int, UniqueId *, void *);
int ncclCommSplit(Communicator *, int, int, Communicator **, void *);
int ncclCommDestroy(Communicator *);
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

using Key = std::tuple<std::string, std::string, std::string, std::string, std::string>;
struct Done {
    std::uint64_t operations = 0;
    std::uint64_t bytes = 0;
};

class Truth {
public:
    void add(const char *function, const Type &type, const char *op, const std::string &rank,
             const std::string &nranks, std::uint64_t count) {
        const std::lock_guard lock(mutex_);
        Done &done = done_[{function, type.name, op, rank, nranks}];
        done.operations++;
        done.bytes += count * type.bytes;
    }
    void print() const {
        for (const auto &[key, done] : done_) {
            const auto &[function, type, op, rank, nranks] = key;
            std::printf("truth %s %s %s %s %s %llu %llu\n", function.c_str(), type.c_str(),
                        op.c_str(), rank.c_str(), nranks.c_str(),
                        static_cast<unsigned long long>(done.operations),
                        static_cast<unsigned long long>(done.bytes));
        }
    }

private:
    std::mutex mutex_;
    std::map<Key, Done> done_;
};

// One round on a communicator whose rank is shown so.
void communicate(Communicator *communicator, const std::string &rank, const std::string &nranks,
                 int round, Truth &truth) {
    const Type &type = types[static_cast<std::size_t>(round) % types.size()];
    const std::size_t op = static_cast<std::size_t>(round) % ops.size();
    const std::size_t count = 1000 + static_cast<std::size_t>(round) * 17;
    char buffer = 0;
    const auto add = [&](int result, const char *function, const char *shown_op) {
        if (result == 0) {
            truth.add(function, type, shown_op, rank, nranks, count);
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
    add(ncclAllGather(&buffer, &buffer, count, type.number, communicator, nullptr), "ncclAllGather",
        "-");
    add(ncclSend(&buffer, count, type.number, 1, communicator, nullptr), "ncclSend", "-");
    // These fail: no bytes.
    add(ncclAllReduce(&buffer, &buffer, count, type.number, op_number, nullptr, nullptr),
        "ncclAllReduce", ops[op]);
}

void run(int rank, int nranks, int rounds, Truth &truth) {
    UniqueId id{};
    const std::string shown = std::to_string(rank);
    const std::string of = std::to_string(nranks);
    for (int round = 0; round < rounds; round++) {
        // Now and then again: the handle of one that was destroyed is given again.
        Communicator *communicator = nullptr;
        if (round % 2 == 0) {
            ncclCommInitRank(&communicator, nranks, id, rank);
        } else {
            ncclCommInitRankScalable(&communicator, nranks, rank, 1, &id, nullptr);
        }
        communicate(communicator, shown, of, round, truth);
        Communicator *split = nullptr;
        ncclCommSplit(communicator, 0, rank, &split, nullptr);
        communicate(split, "unknown", "unknown", round, truth);
        ncclCommDestroy(split);
        ncclCommDestroy(communicator);
    }
}

}  // namespace

int main(int argc, char **argv) {
    int ranks = 4;
    int rounds = 100;
    std::string file;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string_view flag = argv[i];
        if (flag == "--ranks") {
            ranks = std::atoi(argv[i + 1]);
        } else if (flag == "--rounds") {
            rounds = std::atoi(argv[i + 1]);
        } else if (flag == "--wait-for-file") {
            file = argv[i + 1];
        }
    }
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::puts("ready");
    while (!file.empty() && ::access(file.c_str(), F_OK) != 0) {
        ::usleep(1000);
    }
    Truth truth;
    {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < ranks; rank++) {
            threads.emplace_back([&, rank] { run(rank, ranks, rounds, truth); });
        }
    }
    truth.print();
    std::puts("holding");
    for (;;) {
        ::pause();
    }
}
