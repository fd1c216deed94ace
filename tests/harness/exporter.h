// The exporter under test: the real program, on its own port.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/harness/page.h"
#include "tests/harness/process.h"

namespace harness {

// Paths of the build's outputs.
std::string exporter_binary();
std::string standin(const std::string &name);  // a program or library of tests/fakes

// Kernel tests need root and BPF. If these are missing, the test is skipped with that reason; in CI
// (the variable CI is set) it fails instead.
void require_bpf();
// The block `cuda:` for attaching in this mode; by perf to the runtime alone, as the kernel takes
// nearly a tenth of a second to detach from each function.
std::string attached_by(const std::string &mode);
// The configuration, which has no block `discovery:`, for an exporter that leaves the programs
// alone that run beside other tests: where counts of a whole probe are compared.
std::string without_company(const std::string &config);
// The block `discovery:`, with more settings, for an exporter beside other tests: it attaches to
// none of the stand-ins, whose programs those run untraced, or traced in a way of their own.
std::string beside_others(const std::string &settings = "");
// Copies of the CUDA runtime and of its driver, for programs with LD_LIBRARY_PATH=`to`, which no
// other test's exporter waits for.
void copy_cuda_libraries(const std::filesystem::path &to);
// The modes that a test tries: the modes in `of` that GPUSNOOP_TEST_MODES names (words, divided by
// commas), or all if it is not set. CTest runs each test with the tag [modes] by session, and once
// more, with the label `long`, by multi and perf.
std::vector<std::string> attach_modes(std::vector<std::string> of = {"session", "multi", "perf"});
// Ways to see the ends of calls, for a test that tries the modes of attach_modes(). Probes at exits
// are the same in the modes session and multi: few tests try them in both.
std::vector<std::string> endings_by(const std::string &mode);

// The same as require_bpf() for something else that a machine may lack.
void missing(const std::string &what);

// The setting that puts all histograms on the page, which Exporter adds to its configuration.
std::string with_all_histograms();

class Exporter {
public:
    // Started on `config` (YAML) and serving when this returns. Without a block `functions:`,
    // `pcie:` or `nvlink:` there, that probe is off, and so is each probe that a block `host:
    // {...}`, in one line, does not name. All histograms are on, unless the word `histograms:` is
    // there, be it in a comment. It listens on a port of the loopback, or where
    // `listen_address:` there says. `through` is a command that runs the command after it,
    // such as setpriv.
    explicit Exporter(const std::string &config = "", std::vector<std::string> through = {});

    // Rewrites the configuration, as the constructor does. The exporter reads it at the next
    // reload.
    void configure(const std::string &config) const;

    [[nodiscard]] std::uint16_t port() const { return port_; }
    [[nodiscard]] Page scrape() const;
    [[nodiscard]] Process &process() { return *process_; }
    [[nodiscard]] std::string log() const { return process_->output(); }
    // A failure is counted first and logged then: a page can be older than the line on it.
    void wait_for_log(const std::string &text) const { process_->wait_for_output(text); }

    // Attached to this file, whatever other files are attached to.
    void wait_until_attached_to(const std::filesystem::path &library) const;
    [[nodiscard]] std::size_t times_attached_to(const std::filesystem::path &library) const;
    // The number of log lines with this text about this library's file.
    [[nodiscard]] std::size_t times_said_of(const std::filesystem::path &library,
                                            const std::string &text) const;
    // Scrapes until the sum has this value, and returns that page.
    [[nodiscard]] Page wait_for(const std::string &name, const Labels &labels, double value) const;

    // Ends it in a way that leaves detaching from perf events, at which the kernel takes a tenth of
    // a second each, to its helper process, beside the tests that follow. Killed, it would detach
    // itself. Not where they have return probes on functions that a next test's programs leave by
    // exceptions.
    void end_by_perf();

private:
    TemporaryDirectory directory_;
    std::unique_ptr<Process> process_;
    std::uint16_t port_ = 0;
};

}  // namespace harness
