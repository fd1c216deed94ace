// A model of the CUDA probe's BPF programs: a table of live allocations that is always right, and a
// stream of records about it that loses some.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "tests/unit/probes/cuda/fixture.h"

namespace gpusnoop::probes {

struct KeyLess {
    bool operator()(const cuda_live_key &a, const cuda_live_key &b) const {
        return std::tie(a.tgid, a.since_ns, a.space, a.address) <
               std::tie(b.tgid, b.since_ns, b.space, b.address);
    }
};

struct Losses {
    unsigned percent = 0;
    bool replaces = false;  // some frees go a way that nobody sees
};

class KernelModel {
public:
    KernelModel(Fixture &fixture, unsigned seed, Losses losses)
        : bench_(fixture), random_(seed), losses_(losses) {}

    void step();
    void drain() {
        for (const auto &record : std::exchange(ring_, {})) {
            bench_.aggregator->on_allocations_record(record);
        }
        bench_.aggregator->apply_until(std::chrono::nanoseconds(now_));
        forget();
    }

    // As the probe does it, with everything that can happen meanwhile.
    void agree();

    // Until nothing is under way and the aggregator had the chance to reconcile.
    void come_to_rest();

    // The page says what is true.
    void check() const;

private:
    struct Free {
        cuda_live_key key;
        cuda_live live;
    };

    unsigned any(unsigned below) { return static_cast<unsigned>(random_() % below); }

    template <typename Record>
    void send(std::uint32_t pid, Record record) {
        if (any(100) < losses_.percent) {
            const auto of = processes_.find(pid);
            if (of != processes_.end()) {
                of->second.lost_allocations++;
            }
            return;
        }
        record.head.tgid = pid;
        record.head.since_ns = processes_.contains(pid) ? processes_.at(pid).since_ns : 0;
        record.head.ended_ns = now_;
        send_as_is(record);
    }
    template <typename Record>
    void send_as_is(const Record &record) {
        const auto bytes = std::as_bytes(std::span(&record, 1));
        ring_.emplace_back(bytes.begin(), bytes.end());
    }

    cuda_live_key key(std::uint32_t pid, std::uint64_t address, std::uint32_t space) const {
        return {address, processes_.at(pid).since_ns, pid, space};
    }

    static cuda_allocation_record record_of(const Free &of, std::uint16_t type) {
        auto record = allocation(of.key.address, of.live.bytes, of.live.born_ns, of.live.kind,
                                 of.live.device);
        record.head.type = type;
        record.context = of.live.context;
        record.stack = of.live.stack;
        record.flags = type == CUDA_RECORD_FREE ? CUDA_ALLOCATION_KNOWN : 0;
        return record;
    }

    void start(std::uint32_t pid) {
        processes_[pid].since_ns = now_;
        send(pid, process("program", pid, now_));
    }

    void allocate(std::uint32_t pid) {
        cuda_live live{};
        live.kind = static_cast<std::uint16_t>(any(MEMORY_KIND_COUNT));
        live.bytes = any(1'000);
        live.born_ns = now_;
        live.device = static_cast<std::int32_t>(any(2));
        live.context = any(4) == 0 ? 0xc : 0;
        live.stack = static_cast<std::int32_t>(any(5));
        const auto space = live.kind == MEMORY_vmm ? CUDA_LIVE_HANDLES : CUDA_LIVE_MEMORY;
        const Free made{key(pid, 1 + any(20), space), live};
        const bool replaces = table_.contains(made.key);
        if (live_.contains(made.key) && !losses_.replaces) {
            return;  // the address is taken
        }
        has_replaced_ = has_replaced_ || replaces;
        table_[made.key] = live;
        live_.insert(made.key);
        allocated_++;
        auto record = record_of(made, CUDA_RECORD_ALLOCATE);
        record.flags = replaces ? CUDA_ALLOCATION_REPLACES : 0;
        send(pid, record);
    }

    // The entry leaves when the free begins, its record comes when it ends.
    void begin_free(std::uint32_t pid) {
        std::vector<cuda_live_key> own;
        for (const cuda_live_key &one : live_) {
            if (one.tgid == pid) {
                own.push_back(one);
            }
        }
        if (own.empty()) {
            return;
        }
        const cuda_live_key chosen = own[any(static_cast<unsigned>(own.size()))];
        frees_.push_back({chosen, table_.at(chosen)});
        table_.erase(chosen);
        live_.erase(chosen);
        freed_++;
        if (any(2) == 0) {
            end_free();
        }
    }

    void end_free() {
        if (!frees_.empty()) {
            end_free(frees_.begin() + any(static_cast<unsigned>(frees_.size())));
        }
    }
    void end_free(std::vector<Free>::iterator one) {
        send(one->key.tgid, record_of(*one, CUDA_RECORD_FREE));
        frees_.erase(one);
    }
    void end_frees_of(std::uint32_t pid) {
        for (auto one = frees_.begin(); one != frees_.end();) {
            if (one->key.tgid != pid) {
                ++one;
                continue;
            }
            end_free(one);
            one = frees_.begin();
        }
    }

    void lose_memory(std::uint32_t pid, const std::function<bool(const cuda_live &)> &is_gone) {
        end_frees_of(pid);
        std::erase_if(live_, [&](const cuda_live_key &one) {
            const bool gone =
                one.tgid == pid && one.space == CUDA_LIVE_MEMORY && is_gone(table_.at(one));
            freed_ += gone ? 1 : 0;
            return gone;
        });
    }

    void reset_device(std::uint32_t pid) {
        const auto device = static_cast<std::int32_t>(any(2));
        lose_memory(pid,
                    [&](const cuda_live &one) { return one.context == 0 && one.device == device; });
        processes_.at(pid).reset_ns[device] = now_;
        send(pid, reset(device, now_));
    }

    // Only the record shows it.
    void destroy_context(std::uint32_t pid) {
        lose_memory(pid, [](const cuda_live &one) { return one.context == 0xc; });
        auto record = reset(0, now_, 0xc);
        record.head.tgid = pid;
        record.head.since_ns = processes_.at(pid).since_ns;
        send_as_is(record);
    }

    void give_handle(std::uint32_t pid) {
        cuda_live live{};
        live.kind = MEMORY_vmm;
        live.born_ns = now_;
        live.imported = 1;
        table_.emplace(key(pid, 1'000'000 + any(5), CUDA_LIVE_HANDLES), live);
    }

    void map(std::uint32_t pid) {
        cuda_live live{};
        live.bytes = 16;
        live.born_ns = now_;
        const auto where = key(pid, 2'000'000 + (16 * any(5)), CUDA_LIVE_MAPPINGS);
        table_[where] = live;
        send(pid, mapping(CUDA_RECORD_MAP, where.address, live.bytes, now_));
    }

    void end(std::uint32_t pid) {
        end_frees_of(pid);
        std::erase_if(live_, [&](const cuda_live_key &one) {
            unfreed_ += one.tgid == pid ? table_.at(one).bytes : 0;
            return one.tgid == pid;
        });
        cuda_live_process &state = processes_.at(pid);
        state.ended_ns = now_;
        send(pid, exited(now_, state.lost_allocations));
        if (state.lost_allocations > 0) {  // perhaps the record of its end
            ended_[{pid, state.since_ns}] = state;
        }
        processes_.erase(pid);
    }

    // What the aggregator took out of the table must have been dead.
    void forget() {
        for (const auto &[key, born_ns] : std::exchange(bench_.forgotten, {})) {
            if (key.space == CUDA_LIVE_ENDED) {
                ended_.erase({key.tgid, key.since_ns});
            }
            const auto found = table_.find(key);
            if (found != table_.end() && found->second.born_ns == born_ns) {
                CHECK_FALSE(live_.contains(key));
                table_.erase(found);
            }
        }
    }

    Fixture &bench_;
    std::mt19937_64 random_;
    Losses losses_;
    std::uint64_t now_ = 1'000 * second_ns;
    std::map<cuda_live_key, cuda_live, KeyLess> table_;
    std::set<cuda_live_key, KeyLess> live_;  // what is allocated in truth
    std::map<std::uint32_t, cuda_live_process> processes_;
    std::map<ProcessKey, cuda_live_process> ended_;
    std::vector<Free> frees_;  // that have not returned
    std::vector<std::vector<std::byte>> ring_;
    std::uint64_t allocated_ = 0;
    std::uint64_t freed_ = 0;
    std::uint64_t unfreed_ = 0;  // bytes, at the ends of processes
    bool at_rest_ = false;
    bool has_replaced_ = false;  // what an allocation replaced is no free
};

}  // namespace gpusnoop::probes
