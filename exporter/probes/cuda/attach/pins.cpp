#include "exporter/probes/cuda/attach/pins.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <ranges>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/base/text/text.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/processes/proc.h"

namespace gpusnoop::probes {

namespace {

constexpr std::string_view library_prefix = "library_";
constexpr std::string_view incomplete_name = "map_incomplete";
constexpr std::uint32_t max_incomplete = 65'536;

// An entry of the table of incomplete processes.
struct IncompleteKey {
    std::uint64_t tgid;
    std::int64_t started_ns;
    std::uint64_t execs;
};
using IncompleteValue = std::uint32_t;  // of no meaning

constexpr std::string_view scripts_name = "map_scripts";
constexpr std::uint32_t max_scripts = 16'384;

// An entry of the table of scripts.
struct ScriptKey {
    std::uint64_t tgid;
    std::uint64_t since_ns;
};
struct ScriptValue {
    std::int64_t started_ns;
    std::array<char, max_label_bytes> name;  // without a NUL if it is as long
};

Result<Fd> open_table(const ebpf::Pins &pins, std::string_view name, const char *map,
                      std::uint32_t key_bytes, std::uint32_t value_bytes, std::uint32_t entries) {
    if (auto kept = pins.get(name)) {
        return kept;
    }
    LIBBPF_OPTS(bpf_map_create_opts, options);
    options.map_flags = BPF_F_NO_PREALLOC;
    Fd made(bpf_map_create(BPF_MAP_TYPE_HASH, map, key_bytes, value_bytes, entries, &options));
    if (!made) {
        return fail_errno(std::string("make the table ") + map);
    }
    if (auto pinned = pins.pin(made.get(), name); !pinned) {
        return tl::unexpected(pinned.error());
    }
    return made;
}

IncompleteKey to_entry(const MissedCalls::Key &key) {
    return {key.tgid, key.started.count(), key.execs};
}

std::string pin_name(const FileId &id) {
    return std::string(library_prefix) + hexadecimal(id.inode) + "_" + hexadecimal(id.device) +
           "_" + hexadecimal(id.generation) + "_" + hexadecimal(id.address) + "_";
}

// With the values that change whenever the file's contents change.
std::string pin_name(const discovery::Library &library) {
    return pin_name(library.id) + hexadecimal(library.state.bytes) + "_" +
           hexadecimal(static_cast<std::uint64_t>(library.state.modified.count())) + "_";
}

// "<functions>_<links>_<link>" at the end of a name.
std::vector<std::size_t> numbers_in(std::string_view text) {
    std::vector<std::size_t> numbers;
    while (!text.empty()) {
        std::size_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc{}) {
            return {};
        }
        numbers.push_back(number);
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
        if (text.starts_with('_')) {
            text.remove_prefix(1);
        }
    }
    return numbers;
}

// Of those that are missing; also libraries of whose links some are, as of an exporter that was
// killed while it pinned them.
std::vector<std::string> missing_of(const ebpf::Pins &pins) {
    std::vector<std::string> missing = pins.missing();
    std::map<std::string, std::pair<std::size_t, std::size_t>> links;  // expected, and there
    for (const std::string &name : pins.names(library_prefix)) {
        std::size_t end = name.size();
        for (int i = 0; i < 3 && end != std::string::npos; i++) {
            end = end == 0 ? std::string::npos : name.rfind('_', end - 1);
        }
        const auto numbers = end == std::string::npos
                                 ? std::vector<std::size_t>()
                                 : numbers_in(std::string_view(name).substr(end + 1));
        if (numbers.size() == 3) {
            auto &[expected, there] = links[name.substr(0, end)];
            expected = numbers[1];
            there++;
        }
    }
    for (const auto &[library, count] : links) {
        if (count.first != count.second &&
            std::ranges::none_of(missing, [&, &prefix = library](const std::string &name) {
                return name.starts_with(prefix);
            })) {
            missing.push_back(library);
        }
    }
    return missing;
}

void log_missing(const std::string &path, const std::vector<std::string> &missing) {
    constexpr std::size_t max_logged = 10;
    std::string names;
    for (const std::string &name : missing | std::views::take(max_logged)) {
        names += (names.empty() ? "" : " ") + name;
    }
    log::warn(
        "pins of the previous exporter are missing, so the others are removed: memory allocated "
        "before this start is unknown, and its processes have complete=\"false\"",
        {{"probe", "cuda"},
         {"pins", path},
         {"missing", std::to_string(missing.size())},
         {"names", names}});
}

}  // namespace

Result<CudaPins> CudaPins::open(const std::string &path, const std::string &generation) {
    auto pins = ebpf::Pins::open(path, generation);
    if (!pins) {
        return tl::unexpected(pins.error());
    }
    const std::vector<std::string> missing = missing_of(*pins);
    if (!missing.empty()) {
        log_missing(path, missing);
        pins->remove_all();
        pins = fail("reopening");  // gives the lock back
        pins = ebpf::Pins::open(path, generation);
        if (!pins) {
            return tl::unexpected(pins.error());
        }
    }
    auto incomplete = open_table(*pins, incomplete_name, "cuda_incomplete", sizeof(IncompleteKey),
                                 sizeof(IncompleteValue), max_incomplete);
    if (!incomplete) {
        return tl::unexpected(incomplete.error());
    }
    auto scripts = open_table(*pins, scripts_name, "cuda_scripts", sizeof(ScriptKey),
                              sizeof(ScriptValue), max_scripts);
    if (!scripts) {
        return tl::unexpected(scripts.error());
    }
    CudaPins all(std::move(*pins), std::move(*incomplete), std::move(*scripts));
    all.kept_ = all.incomplete();
    all.missing_ = missing.size();
    return all;
}

std::string CudaPins::script_of(const ProcessKey &key) const {
    const ScriptKey entry{key.tgid, key.since_ns};
    ScriptValue value{};
    if (bpf_map_lookup_elem(scripts_.get(), &entry, &value) != 0) {
        return {};
    }
    return {value.name.data(), ::strnlen(value.name.data(), value.name.size())};
}

void CudaPins::keep_script(const ProcessIdentity &process) const {
    const ScriptKey entry{process.key.tgid, process.key.since_ns};
    ScriptValue value{};
    value.started_ns = process.started.count();
    std::copy_n(process.script.begin(), std::min(process.script.size(), value.name.size()),
                value.name.begin());
    if (bpf_map_update_elem(scripts_.get(), &entry, &value, BPF_ANY) == -E2BIG) {
        forget_scripts_of_ended();
        (void)bpf_map_update_elem(scripts_.get(), &entry, &value, BPF_ANY);
    }
}

void CudaPins::forget_scripts_of_ended() const {
    std::vector<ScriptKey> ended;
    (void)ebpf::for_each<ScriptKey, ScriptValue>(
        scripts_.get(), [&](const ScriptKey &key, const ScriptValue &value) {
            if (processes::presence(static_cast<std::uint32_t>(key.tgid),
                                    std::chrono::nanoseconds(value.started_ns)) ==
                processes::Presence::gone) {
                ended.push_back(key);
            }
        });
    for (const ScriptKey &key : ended) {
        (void)bpf_map_delete_elem(scripts_.get(), &key);
    }
}

std::set<MissedCalls::Key> CudaPins::incomplete() const {
    std::set<MissedCalls::Key> all;
    (void)ebpf::for_each<IncompleteKey, IncompleteValue>(
        incomplete_.get(), [&](const IncompleteKey &key, IncompleteValue) {
            all.insert({static_cast<std::uint32_t>(key.tgid),
                        std::chrono::nanoseconds(key.started_ns), key.execs});
        });
    return all;
}

// A process for which there is no room is taken for complete by the next exporter; so many
// processes do not use CUDA on one node.
void CudaPins::keep_incomplete(const std::set<MissedCalls::Key> &processes) {
    for (const MissedCalls::Key &key : kept_) {
        if (!processes.contains(key)) {
            const IncompleteKey entry = to_entry(key);
            (void)bpf_map_delete_elem(incomplete_.get(), &entry);
        }
    }
    for (const MissedCalls::Key &key : processes) {
        if (!kept_.contains(key)) {
            const IncompleteKey entry = to_entry(key);
            const IncompleteValue value = 1;
            (void)bpf_map_update_elem(incomplete_.get(), &entry, &value, BPF_ANY);
        }
    }
    kept_ = processes;
}

std::optional<ebpf::UprobeSet> CudaPins::adopt(const discovery::Library &library) const {
    const std::string prefix = pin_name(library);
    const std::vector<std::string> all = pins_.names(pin_name(library.id));
    std::vector<Fd> links;
    std::size_t functions = 0;
    std::size_t expected = 0;
    for (const std::string &name : all) {
        if (!name.starts_with(prefix)) {
            continue;  // of an earlier content
        }
        const auto numbers = numbers_in(std::string_view(name).substr(prefix.size()));
        auto link = pins_.get(name);
        if (numbers.size() == 3 && link) {
            functions = numbers[0];
            expected = numbers[1];
            links.push_back(std::move(*link));
        }
    }
    if (links.empty() || links.size() != expected || links.size() != all.size()) {
        forget(library.id);
        return std::nullopt;
    }
    return ebpf::UprobeSet::adopt(std::move(links), functions);
}

Result<> CudaPins::keep(const ebpf::UprobeSet &probes, const discovery::Library &library) const {
    const std::vector<int> links = probes.links();
    for (std::size_t i = 0; i < links.size(); i++) {
        const std::string name = pin_name(library) + std::to_string(probes.functions()) + "_" +
                                 std::to_string(links.size()) + "_" + std::to_string(i);
        if (auto pinned = pins_.pin(links[i], name); !pinned) {
            forget(library.id);
            return pinned;
        }
    }
    return {};
}

void CudaPins::forget(const FileId &id) const {
    for (const std::string &name : pins_.names(pin_name(id))) {
        pins_.remove(name);
    }
}

}  // namespace gpusnoop::probes
