// The exporter under test: the real program, on a port of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/harness/page.h"
#include "tests/harness/process.h"

namespace harness {

// Paths of what the build made.
std::string exporter_binary();
std::string standin(const std::string &name);  // a program or library of tests/fakes

// Kernel tests need root and BPF. Where they are missing, the test is skipped with that reason; in
// CI (the variable CI is set) it fails instead.
void require_bpf();
// The block `cuda:` for attaching in this mode; by perf to the runtime alone, as the kernel takes
// nearly a tenth of a second to detach from each function.
std::string attached_by(const std::string &mode);
// The ways to attach that a test is to try: those of `of` that GPUSNOOP_TEST_MODES names (words,
// divided by commas), or all where it is not set. CTest runs each test that has the tag [modes] by
// session and multi, and once more by perf, which takes the kernel so long to detach.
std::vector<std::string> attach_modes(std::vector<std::string> of = {"session", "multi", "perf"});

// The same as require_bpf() for something else that a machine may lack.
void missing(const std::string &what);

class Exporter {
public:
    // Started on `config` (YAML) and serving when this returns. Without a block `functions:`,
    // `pcie:` or `nvlink:` there, that probe is off. `through` is a command that runs the command
    // after it, such as setpriv.
    explicit Exporter(const std::string &config = "", std::vector<std::string> through = {});

    // Rewrites the configuration, as the constructor does. The exporter reads it when it is told
    // to.
    void configure(const std::string &config) const;

    [[nodiscard]] std::uint16_t port() const { return port_; }
    [[nodiscard]] Page scrape() const;
    [[nodiscard]] Process &process() { return *process_; }
    [[nodiscard]] std::string log() const { return process_->output(); }

    // To this file, whatever else on the machine is attached to.
    void wait_until_attached_to(const std::filesystem::path &library) const;
    [[nodiscard]] std::size_t times_attached_to(const std::filesystem::path &library) const;
    // Lines of the log with this text that are about this library's file.
    [[nodiscard]] std::size_t times_said_of(const std::filesystem::path &library,
                                            const std::string &text) const;
    // Scrapes until the sum has this value, and returns that page.
    [[nodiscard]] Page wait_for(const std::string &name, const Labels &labels, double value) const;

private:
    TemporaryDirectory directory_;
    std::unique_ptr<Process> process_;
    std::uint16_t port_ = 0;
};

}  // namespace harness
