// BPF objects that outlive the process: pinned in a BPF file system.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// A directory of pins, locked while this object lives: two exporters cannot share one.
class Pins {
public:
    // Pins are in `root`/`generation`, which is created. Pins of other generations belong to
    // another version or configuration; they are removed, which detaches their links. Fails if
    // `root` is not in a BPF file system, or if another exporter uses it.
    static Result<Pins> open(const std::string &root, const std::string &generation);

    // The pins that something else has removed, sorted. A table in the kernel, which is pinned,
    // too, has the names of all.
    [[nodiscard]] std::vector<std::string> missing() const;

    [[nodiscard]] std::string path_of(std::string_view name) const;
    [[nodiscard]] std::vector<std::string> names(std::string_view prefix) const;  // sorted

    // Names may have letters, digits and underscores.
    [[nodiscard]] Result<> pin(int fd, std::string_view name) const;
    // To be called when others have pinned objects here, such as libbpf.
    void note_all() const;
    [[nodiscard]] Result<Fd> get(std::string_view name) const;
    void remove(std::string_view name) const;
    // And the directories, so nothing can be pinned afterwards. Returns the number of objects.
    unsigned remove_all() const;

private:
    Pins(Fd lock, std::string directory)
        : lock_(std::move(lock)), directory_(std::move(directory)) {}
    Result<> open_names();
    void note(std::string_view name) const;

    Fd lock_;
    std::string directory_;
    Fd names_;  // a table; none: others removed it
};

// Whether an exporter that has ended left pins; false while an exporter uses them.
[[nodiscard]] bool has_pins(const std::string &root);

// Removes all pins, which detaches the probes that they kept attached. Returns the number of
// objects; fails if an exporter uses them.
[[nodiscard]] Result<unsigned> remove_pins(const std::string &root);

}  // namespace gpusnoop::ebpf
