#include "tests/harness/exporter.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "exporter/ebpf/features.h"
#include "exporter/probes/frame/registry.h"

namespace harness {

std::string exporter_binary() {
    // Another build of it: scripts/sanitized.sh.
    const char *other = std::getenv("GPUSNOOP_EXPORTER");
    return other != nullptr ? other : GPUSNOOP_BINARY;
}

std::string standin(const std::string &name) {
    return std::string(GPUSNOOP_STANDIN) + "/" + name;
}

void missing(const std::string &what) {
    if (std::getenv("CI") != nullptr) {
        FAIL("this test needs " << what);
    }
    SKIP("this test needs " << what);
}

std::string attached_by(const std::string &mode) {
    return "cuda:\n  attach: " + mode + "\n" +
           (mode == "perf" ? "  libraries: [\"libcudart.so*\"]\n" : "");
}

std::string without_company(const std::string &config) {
    return config + "discovery: {exclude: [\"" + standin("company") + "/*\", \"" + standin("demo") +
           "\"]}\n";
}

std::string beside_others(const std::string &settings) {
    return "discovery: {" + settings + "exclude: [\"" + standin("*") + "\"]}\n";
}

void copy_cuda_libraries(const std::filesystem::path &to) {
    for (const std::filesystem::path library : {"12/libcudart.so.12", "driver/libcuda.so.1"}) {
        std::filesystem::copy_file(standin(library), to / library.filename());
    }
}

std::vector<std::string> attach_modes(std::vector<std::string> of) {
    if (const char *const wanted = std::getenv("GPUSNOOP_TEST_MODES")) {
        const std::string modes = "," + std::string(wanted) + ",";
        std::erase_if(of, [&](const std::string &mode) {
            return modes.find("," + mode + ",") == std::string::npos;
        });
    }
    return of;
}

std::vector<std::string> endings_by(const std::string &mode) {
    return mode == "multi" ? std::vector<std::string>{"auto"}
                           : std::vector<std::string>{"auto", "exits"};
}

namespace {

// Unless the configuration says what the probes may cost: then the test is about that.
void see_launches_to_their_end(std::string &config) {
    if (config.find("max_overhead:") != std::string::npos) {
        return;
    }
    const std::string setting = "max_overhead: 0";
    const std::string block = "cuda:";
    const std::size_t at = ("\n" + config).find("\n" + block);
    if (at == std::string::npos) {
        config += block + " {" + setting + "}\n";
        return;
    }
    const std::size_t after = at + block.size();
    if (config.compare(after, 2, " {") == 0) {
        config.insert(after + 2, setting + (config.compare(after + 2, 1, "}") == 0 ? "" : ", "));
    } else {
        config.insert(after, "\n  " + setting);
    }
}

// Unless the configuration chooses some: then the test is about that.
void show_all_histograms(std::string &config) {
    if (config.find("histograms:") == std::string::npos) {
        config += with_all_histograms();
    }
}

}  // namespace

std::string with_all_histograms() {
    std::string all;
    for (const std::string &name : gpusnoop::probes::all_histograms()) {
        all += (all.empty() ? "" : ", ") + name;
    }
    return "histograms: [" + all + "]\n";
}

void require_bpf() {
    if (::geteuid() != 0) {
        missing("root");
    }
    const auto features = gpusnoop::ebpf::probe_features();
    if (!gpusnoop::ebpf::check_requirements(features) || features.attach_modes().empty()) {
        missing("a kernel with BPF and uprobes");
    }
}

Exporter::Exporter(const std::string &config, std::vector<std::string> through) {
    configure(config);
    const auto file = directory_ / "config.yaml";
    through.insert(through.end(),
                   {exporter_binary(), "--config.file=" + file.string(), "--web.enable-lifecycle"});
    if (config.find("listen_address:") == std::string::npos) {
        through.emplace_back("--web.listen-address=127.0.0.1:0");
    }
    process_ = std::make_unique<Process>(std::move(through));
    process_->wait_for_output("msg=\"listening\"");
    const std::string text = log();
    port_ = static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(" port=") + 6)));
}

void Exporter::configure(const std::string &config) const {
    // The groups of the functions probe have functions of the CUDA runtime as well. Two probes
    // attaching to each library is for the tests that are about that. Kernel-side probes
    // meet every process of the machine, and some are for guests only.
    std::string text = config;
    see_launches_to_their_end(text);
    show_all_histograms(text);
    // The host probes are one block, in one line.
    const std::string block_begin = "host: {";
    const auto block_at = config.find(block_begin);
    const bool has_block = block_at != std::string::npos;
    const std::string block =
        has_block ? config.substr(block_at, config.find('\n', block_at) - block_at) : "";
    std::string host;
    for (const auto *const kind : gpusnoop::probes::all_probes()) {
        const std::string probe(kind->name);
        if (kind->read_host != nullptr) {
            const std::string key = probe.substr(probe.find('_') + 1) + ": ";
            host += block.find(key) == std::string::npos ? key + "{enabled: false}, " : "";
        } else if (probe != "cuda" && config.find(probe + ":") == std::string::npos) {
            text += probe + ": {enabled: false}\n";
        }
    }
    if (has_block) {
        text.insert(text.find(block_begin) + block_begin.size(), host);
    } else {
        text += block_begin + host + "}\n";
    }
    write_file(directory_ / "config.yaml", text);
}

Page Exporter::scrape() const {
    const HttpAnswer answer = http(port_, "/metrics");
    INFO(log());
    REQUIRE(answer.status == 200);
    return Page(answer.body);
}

void Exporter::end_by_perf() {
    process_->signal(SIGTERM);
    CHECK(process_->wait() == 0);
}

std::size_t Exporter::times_attached_to(const std::filesystem::path &library) const {
    return times_said_of(library, "msg=\"attached\"");
}

std::size_t Exporter::times_said_of(const std::filesystem::path &library,
                                    const std::string &text) const {
    struct stat status{};
    REQUIRE(::stat(library.c_str(), &status) == 0);
    const std::string inode = " inode=" + std::to_string(status.st_ino) + " ";
    std::istringstream lines(log());
    std::size_t times = 0;
    for (std::string line; std::getline(lines, line);) {
        const bool is_said = line.find(text) != std::string::npos;
        line += ' ';  // behind the last field
        times += is_said && line.find(inode) != std::string::npos ? 1 : 0;
    }
    return times;
}

void Exporter::wait_until_attached_to(const std::filesystem::path &library) const {
    eventually("the exporter to attach to " + library.string() + ": " + log(),
               [&] { return times_attached_to(library) > 0; });
}

namespace {

// The family's rows on the page, for the message of a check that fails.
std::string rows(const Page &page, const std::string &name) {
    std::ostringstream text;
    text << name << ":\n";
    for (const Sample &sample : page.samples(name)) {
        for (const auto &[label, value] : sample.labels) {
            text << ' ' << label << '=' << value;
        }
        text << ' ' << std::fixed << sample.value << '\n';
    }
    return text.str();
}

}  // namespace

Page Exporter::wait_for(const std::string &name, const Labels &labels, double value) const {
    Page page = scrape();
    double last = page.sum(name, labels);
    for (int i = 0; i < 500 && last != value; i++) {
        ::usleep(10'000);
        page = scrape();
        last = page.sum(name, labels);
    }
    INFO(rows(page, name) << rows(page, "gpusnoop_probe_events_lost_total"));
    CHECK(last == value);
    return page;
}

}  // namespace harness
