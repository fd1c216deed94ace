#include "exporter/probes/cuda/launches/launches.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>

#include <tsl/robin_map.h>

#include "exporter/base/text/text.h"
#include "exporter/probes/cuda/launches/cuda_kernel_name.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

// The longest time that launches wait for the name of their kernel. Launches of a process that has
// ended have no other chance to be counted under it.
constexpr std::chrono::seconds max_naming_time{10};
constexpr std::chrono::seconds max_naming_time_of_ended{30};

// Per process; further shapes are counted as "other", like folded label sets.
constexpr std::size_t max_launch_shapes = 65'536;

// What each takes, with the empty places of its table. A kernel can have 17 names.
constexpr std::size_t bytes_of_shape = 256;
constexpr std::size_t bytes_of_kernel = 3072;

LaunchShape shape_of(const Process &process, std::uint64_t kernel, std::int32_t device,
                     const std::uint32_t (&grid)[3], const std::uint32_t (&block)[3]) {
    return {kernel,
            device_of(process, device),
            {grid[0], grid[1], grid[2]},
            {block[0], block[1], block[2]},
            Via::stream};
}

std::uint64_t threads_of(const LaunchShape &shape) {
    std::uint64_t threads = 1;
    for (std::size_t i = 0; i < 3; i++) {
        threads *= std::uint64_t{shape.grid[i]} * shape.block[i];
    }
    return threads;
}

std::string shape_text(const std::array<std::uint32_t, 3> &shape) {
    return std::to_string(shape[0]) + "x" + std::to_string(shape[1]) + "x" +
           std::to_string(shape[2]);
}

}  // namespace

struct CudaLaunches::Count {
    std::optional<series::Slot> slot;  // once the kernel has its name
    std::uint64_t waiting = 0;         // launches until then
    std::uint64_t renames = 0;         // of the process, when the name was read
};

struct CudaLaunches::State final : PartState {
    static constexpr Part part = Part::launches;

    UserShare room;  // for kernels and shapes
    KernelNames names;
    bool is_named = false;  // in named_
    tsl::robin_map<LaunchShape, Count, LaunchShape::Hash> counts;
    tsl::robin_map<std::uint64_t, std::array<series::Slot, 2>> times;  // device
    std::uint64_t launched = 0;
    // What is counted already of each entry of the kernel's table.
    CountedLaunches counted;
    // What was counted on each device where launches enter the driver.
    std::map<std::int32_t, std::uint64_t> by_device;
    Unseen unseen;
    std::optional<series::Slot> unseen_slot;
    Bound lower;
    Bound upper;
};

CudaLaunches::CudaLaunches(series::FamilySet &families, const CudaProcessTable &processes,
                           const CudaCallbacks &callbacks, nanoseconds started,
                           const UserRoom::Limits &limits)
    : families_(make_launch_families(families)),
      processes_(processes),
      callbacks_(callbacks),
      room_(std::make_shared<UserRoom>(limits)),
      now_(started) {}

void CudaLaunches::started(Process &process) {
    add_state<State>(process);
}

std::uint64_t CudaLaunches::launched(const Process &process) {
    const State &state = state_of<State>(process);
    return state.launched + state.unseen.launches;
}

CudaLaunches::Counted CudaLaunches::counted(const Process &process) {
    const State &state = state_of<State>(process);
    Counted counted{.launches = state.launched, .devices = {}};
    for (const auto &[shape, count] : state.counts) {
        counted.devices.insert(shape.device);
    }
    return counted;
}

void CudaLaunches::tidy(nanoseconds now) {
    now_ = now;
    count_named();
    processes_.for_each([this](Process &process) { give_up_names(process); });
    families_.launches.rebalance();
}

// Counts kernels whose names take too long as unknown, until their names come.
void CudaLaunches::give_up_names(Process &process) {
    KernelNames &names = state_of<State>(process).names;
    if (names.give_up(now_, process.ended ? max_naming_time_of_ended : max_naming_time)) {
        count_waiting(process);
    }
    if (!process.ended) {
        callbacks_.note_unknown_kernels(process.key, names.unknown());
        for (const KernelNames::Request &request : names.ask_again(now_)) {
            ask(process, request);
        }
    }
}

void CudaLaunches::ask(const Process &process, const KernelNames::Request &request) {
    const std::uint64_t ticket = next_ticket_++;
    tickets_.emplace(ticket, std::pair(process.key, request));
    callbacks_.ask_for_kernel({ticket, process.executable, request.key});
}

bool CudaLaunches::is_done_with(const Process &process) {
    return !state_of<State>(process).names.is_waiting();
}

void CudaLaunches::on_launch(Process &process, const cuda_launch_record &record) {
    const LaunchShape shape =
        shape_of(process, record.kernel, record.head.device, record.grid, record.block);
    const auto &[durations, threads] = times_of(process, shape.device);
    families_.launch_duration.observe(durations, record.head.duration_ns);
    families_.launch_threads.observe(threads, threads_of(shape));
    add(process, shape, 1, record.head.ended_ns - record.head.duration_ns);
}

std::uint64_t CudaLaunches::on_counted(Process &process, const cuda_launch_key &key,
                                       const cuda_launch_count &count) {
    std::uint64_t &before = state_of<State>(process).counted[key];
    const std::uint64_t launches = count.launches - before;
    if (launches == 0) {
        return 0;
    }
    before = count.launches;
    state_of<State>(process).by_device[key.device] += launches;
    const LaunchShape shape = shape_of(process, key.kernel, key.device, key.grid, key.block);
    families_.launch_threads.observe(times_of(process, shape.device)[1], threads_of(shape),
                                     launches);
    add(process, shape, launches, count.first_ns);
    return launches;
}

void CudaLaunches::add_by_graph(Process &process, LaunchShape shape, std::uint64_t amount,
                                std::uint64_t began_ns) {
    shape.via = Via::graph;
    add(process, shape, amount, began_ns);
}

// Its kernel, if it is a new one, takes the room.
bool CudaLaunches::find_room_for(Process &process, std::uint64_t kernel) {
    auto &state = state_of<State>(process);
    if (!state.room.is_limited()) {
        state.room = UserShare(room_, process.uid);
    }
    return state.names.contains(kernel) ||
           (state.names.has_room_for(kernel) && state.room.take(bytes_of_kernel));
}

void CudaLaunches::add(Process &process, LaunchShape shape, std::uint64_t amount,
                       std::uint64_t began_ns) {
    auto &state = state_of<State>(process);
    state.launched += amount;
    const bool has_room = find_room_for(process, shape.kernel);
    if (state.names.renames() > 0) {
        if (const std::string *name = state.names.former_name(shape.kernel, began_ns)) {
            return families_.launches.add(slot_of(process, shape, *name), amount);
        }
    }
    if (!has_room) {
        shape.kernel = surplus_kernel;
    }
    auto found = state.counts.find(shape);
    if (found == state.counts.end()) {
        if (!has_room || state.counts.size() >= max_launch_shapes ||
            !state.room.take(bytes_of_shape)) {
            shape.grid = shape.block = {};
        }
        found = state.counts.try_emplace(shape).first;
    }
    Count &of_shape = found.value();
    if (of_shape.renames != state.names.renames()) {
        if (state.names.was_renamed_since(shape.kernel, of_shape.renames)) {
            of_shape.slot.reset();
        }
        of_shape.renames = state.names.renames();
    }
    if (of_shape.slot) {
        families_.launches.add(*of_shape.slot, amount);
    } else {
        count_launches(process, shape, of_shape, amount);
    }
}

const std::array<series::Slot, 2> &CudaLaunches::times_of(Process &process, std::int32_t device) {
    auto &times = state_of<State>(process).times;
    auto found = times.find(slot_key(device, 0));
    if (found == times.end()) {
        const auto values = labels_of(process, {gpu_of(process, device)});
        found = times
                    .try_emplace(slot_key(device, 0),
                                 std::array{families_.launch_duration.slot(process.owner, values),
                                            families_.launch_threads.slot(process.owner, values)})
                    .first;
    }
    return found->second;
}

series::Slot CudaLaunches::slot_of(const Process &process, const LaunchShape &shape,
                                   const std::string &name) {
    const bool folded = shape.grid[0] == 0;  // no launch with an empty grid succeeds
    return families_.launches.slot(
        process.owner,
        labels_of(process,
                  {name.empty() ? "unknown" : name, folded ? "other" : shape_text(shape.grid),
                   folded ? "other" : shape_text(shape.block),
                   shape.via == Via::graph ? "graph" : "stream", gpu_of(process, shape.device)}));
}

void CudaLaunches::count_launches(Process &process, const LaunchShape &shape, Count &count,
                                  std::uint64_t amount) {
    KernelNames &names = state_of<State>(process).names;
    if (shape.kernel != surplus_kernel && !names.contains(shape.kernel)) {
        callbacks_.catch_up();  // its handle may be new
        if (!names.contains(shape.kernel)) {
            if (const auto kernel = callbacks_.launched_by(process.key, shape.kernel)) {
                names.set_meaning(shape.kernel, *kernel, 0);
            }
        }
    }
    const auto [name, request] = names.find(shape.kernel);
    if (request) {
        ask(process, *request);
    }
    if (name == nullptr) {
        count.waiting += amount;
        return;
    }
    count.slot = slot_of(process, shape, *name);
    families_.launches.add(*count.slot, amount + count.waiting);
    count.waiting = 0;
}

void CudaLaunches::note_unseen(Process &process) {
    auto &state = state_of<State>(process);
    const Unseen unseen = callbacks_.unseen_of(process.key);
    state.unseen.loss = unseen.loss;
    if (unseen.time > state.unseen.time) {
        if (!state.unseen_slot) {
            state.unseen_slot = families_.unobserved.slot(process.owner, labels_of(process, {}));
        }
        families_.unobserved.add(
            *state.unseen_slot,
            static_cast<std::uint64_t>((unseen.time - state.unseen.time).count()));
        state.unseen.time = unseen.time;
    }
    if (state.by_device.empty()) {
        return;
    }
    if (unseen.launches > state.unseen.launches) {
        add_unseen(process, unseen.launches - state.unseen.launches);
        state.unseen.launches = unseen.launches;
    }
    note_bound(process, "lower", unseen.least, state.lower);
    note_bound(process, "upper", unseen.most, state.upper);
}

void CudaLaunches::note_bound(const Process &process, const std::string &name,
                              std::uint64_t launches, Bound &bound) {
    if (launches <= bound.launches) {
        return;
    }
    if (!bound.slot) {
        bound.slot = families_.unobserved_bounds.slot(process.owner, labels_of(process, {name}));
    }
    families_.unobserved_bounds.add(*bound.slot,
                                    launches - std::exchange(bound.launches, launches));
}

void CudaLaunches::add_gauges(series::FamilySet &gauges, const CudaProcessTable &processes) {
    series::Family &family = make_loss_gauge(gauges);
    processes.for_each([&](const Process &process) {
        const std::optional<LossFactor> &loss = state_of<State>(process).unseen.loss;
        if (process.ended || !loss) {
            return;
        }
        const auto add = [&](const std::string &bound, double factor) {
            add_gauge(family, gauge_labels_of(process, {bound}),
                      static_cast<std::uint64_t>(std::llround(1000 * std::max(0.0, factor))));
        };
        add("lower", loss->estimate - loss->error);
        add("estimate", loss->estimate);
        add("upper", loss->estimate + loss->error);
    });
}

// On the devices on which it launched while its launches were counted, in that proportion.
void CudaLaunches::add_unseen(Process &process, std::uint64_t launches) {
    const auto &by_device = state_of<State>(process).by_device;
    double rest = 0;
    for (const auto &[device, counted] : by_device) {
        rest += static_cast<double>(counted);
    }
    for (const auto &[device, counted] : by_device) {
        const double share = static_cast<double>(counted) / rest;
        const auto here = static_cast<std::uint64_t>(share * static_cast<double>(launches) + 0.5);
        families_.unobserved_launches.add(
            families_.unobserved_launches.slot(
                process.owner, labels_of(process, {gpu_of(process, device_of(process, device))})),
            here);
        launches -= here;
        rest -= static_cast<double>(counted);
    }
}

// ---- names ----

void CudaLaunches::on_kernel(Process &process, const cuda_kernel_record &record) {
    if (!find_room_for(process, record.handle)) {
        return;
    }
    state_of<State>(process).names.set_meaning(record.handle, record.stands_for,
                                               record.head.ended_ns);
}

void CudaLaunches::on_name(Process &process, const cuda_name_record &record) {
    const std::string_view bytes(record.name, ::strnlen(record.name, sizeof(record.name)));
    if (find_room_for(process, record.handle) &&
        state_of<State>(process).names.set_name(
            record.handle, to_valid_utf8(symbols::kernel_name(bytes), max_label_bytes),
            record.head.ended_ns)) {
        note_named(process);
    }
}

void CudaLaunches::on_kernel_name(const symbols::CudaKernelReply &answer) {
    const auto ticket = tickets_.find(answer.ticket);
    if (ticket == tickets_.end()) {
        return;
    }
    const auto [key, request] = ticket->second;
    tickets_.erase(ticket);
    Process *const process = processes_.find(key);
    if (process != nullptr && state_of<State>(*process).names.on_found(
                                  request, to_valid_utf8(answer.name, max_label_bytes))) {
        note_named(*process);
    }
}

void CudaLaunches::note_named(Process &process) {
    if (!std::exchange(state_of<State>(process).is_named, true)) {
        named_.push_back(process.key);
    }
}

void CudaLaunches::count_named() {
    for (const ProcessKey &key : std::exchange(named_, {})) {
        if (Process *const process = processes_.find(key)) {
            state_of<State>(*process).is_named = false;
            count_waiting(*process);
        }
    }
}

void CudaLaunches::count_waiting(Process &process) {
    auto &counts = state_of<State>(process).counts;
    for (auto entry = counts.begin(); entry != counts.end(); ++entry) {
        if (entry->second.waiting > 0) {
            count_launches(process, entry->first, entry.value(), 0);
        }
    }
}

}  // namespace gpusnoop::probes
