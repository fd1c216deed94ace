// The part of FunctionsAggregator for NCCL: operations, and how far each rank has come.
#include <algorithm>
#include <set>

#include "exporter/probes/functions/count/aggregator.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

// For one function in one process; further operations are counted as "other".
constexpr std::size_t max_nccl_operations = 4'096;
// What each takes in memory, about.
constexpr std::size_t bytes_of_operation = 512;

}  // namespace

void FunctionsAggregator::on_words(const func_words_record &record) {
    const ProcessKey key{record.head.tgid, record.head.since_ns};
    if (processes_.contains(key)) {
        processes_.of(key).communicators.on_words(record);
    }
}

void FunctionsAggregator::count_nccl(Process &process, Counted &counted,
                                     const func_arguments_record &arguments) {
    const auto count = process.communicators.take(*counted.function->nccl, arguments, splits_, [&] {
        return settings_.boot_id + " " + std::to_string(process.key.tgid) + " " +
               std::to_string(process.key.since_ns);
    });
    if (!count) {
        return;
    }
    auto found = counted.nccl.find(count->operation);
    if (found == counted.nccl.end()) {
        const bool has_room =
            counted.nccl.size() < max_nccl_operations && find_room(process, bytes_of_operation);
        const NcclOperation &shown = has_room ? count->operation
                                              : NcclOperation{.datatype = "other",
                                                              .op = "other",
                                                              .communicator = "other",
                                                              .rank = "other",
                                                              .nranks = "other"};
        auto values = labels(process, *counted.function);
        values.insert(values.end(),
                      {shown.datatype, shown.op, shown.communicator, shown.rank, shown.nranks});
        found = counted.nccl
                    .try_emplace(shown, families_.nccl_operations.slot(process.owner, values),
                                 families_.nccl_bytes.slot(process.owner, values))
                    .first;
    }
    families_.nccl_operations.add(found->second.first, 1);
    families_.nccl_bytes.add(found->second.second, count->bytes.value_or(0));
}

// Only of communicators that are called the same on other nodes.
void FunctionsAggregator::show_nccl(series::FamilySet &set) const {
    const NcclGauges gauges = make_nccl_gauges(set);
    processes_.for_each([&](const Process &process) {
        if (process.ended) {
            return;
        }
        series::LabelValues of_process = process.labels;
        if (!settings_.pid_label) {
            of_process.push_back(std::to_string(process.key.tgid));
        }
        for (const auto &[handle, member] : process.communicators.members()) {
            if (member.hash == 0) {
                continue;
            }
            series::LabelValues values = of_process;
            values.insert(values.end(),
                          {shown(member.hash), shown(member.rank), shown(member.nranks)});
            // Of ranks that are not known, and of folded label sets: the one that is ahead.
            const auto set_most = [&](series::Family &family, std::uint64_t value) {
                const series::Slot slot = family.slot(0, values);
                family.set(slot, std::max(family.value(slot), value));
            };
            set_most(gauges.sequence, member.sequence);
            if (settings_.to_realtime) {
                const auto moved = nanoseconds(static_cast<std::int64_t>(member.moved_ns));
                set_most(gauges.last_operation,
                         static_cast<std::uint64_t>(settings_.to_realtime(moved).count()));
            }
        }
    });
}

// A program that makes communicators again and again has no more series for it.
void FunctionsAggregator::forget_communicators(nanoseconds now) {
    processes_.for_each([&](Process &process) {
        for (const NcclHash hash : process.communicators.take_ended()) {
            retained_.communicators.insert_or_assign(hash, now);
        }
    });
    std::set<std::string> gone;
    std::erase_if(retained_.communicators, [&](const auto &entry) {
        const bool is_over = entry.first == 0 || now - entry.second >= settings_.retention;
        if (is_over && entry.first != 0) {
            gone.insert(shown(entry.first));
        }
        return is_over;
    });
    if (gone.empty()) {
        return;
    }
    processes_.for_each([&](Process &process) {
        for (const auto &[handle, member] : process.communicators.members()) {
            gone.erase(shown(member.hash));  // another rank of it lives
        }
    });
    if (gone.empty()) {
        return;
    }
    // Slots are looked up again at the next call.
    processes_.for_each([](Process &process) {
        for (auto counted = process.functions.begin(); counted != process.functions.end();
             ++counted) {
            counted.value().nccl.clear();
        }
    });
    const std::size_t communicator =
        series::process_labels(settings_.pid_label).size() + communicator_label;
    for (series::Family *family : {&families_.nccl_operations, &families_.nccl_bytes}) {
        family->remove_if([&](const series::LabelValues &values) {
            return gone.contains(values.at(communicator));
        });
    }
}

}  // namespace gpusnoop::probes
