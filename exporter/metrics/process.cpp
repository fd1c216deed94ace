#include "exporter/metrics/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "exporter/base/read_file.h"

namespace gpusnoop::metrics {

namespace {

std::optional<std::string> read_text(const char *path) {
    constexpr std::size_t most = std::size_t{4}
                                 << 20;  // /proc/stat has a number for each interrupt
    const auto text = read_start(path, most);
    return text ? std::optional(*text) : std::nullopt;
}

std::vector<std::string_view> split(std::string_view text) {
    std::vector<std::string_view> fields;
    for (;;) {
        const std::size_t first = text.find_first_not_of(" \n");
        if (first == std::string_view::npos) {
            return fields;
        }
        text.remove_prefix(first);
        fields.push_back(text.substr(0, text.find_first_of(" \n")));
        text.remove_prefix(fields.back().size());
    }
}

std::optional<double> number(std::string_view text) {
    std::int64_t value = 0;
    const char *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end) {
        return std::nullopt;
    }
    return static_cast<double>(value);
}

std::optional<double> boot_time() {
    const std::optional<std::string> text = read_text("/proc/stat");
    const std::size_t line = text ? text->find("\nbtime ") : std::string::npos;
    if (line == std::string::npos) {
        return std::nullopt;
    }
    const std::string_view rest = std::string_view(*text).substr(line + 7);
    return number(rest.substr(0, rest.find('\n')));
}

std::optional<double> limit(int resource) {
    rlimit limits{};
    if (getrlimit(static_cast<__rlimit_resource>(resource), &limits) != 0) {
        return std::nullopt;
    }
    return static_cast<double>(limits.rlim_cur);  // RLIM_INFINITY is 2^64 - 1
}

std::optional<double> count_open_fds() {
    std::error_code error;
    double count = 0;
    std::filesystem::directory_iterator entry("/proc/self/fd", error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        count += 1;
    }
    if (error) {
        return std::nullopt;
    }
    return count - 1;  // without the descriptor of this listing itself
}

struct Description {
    const char *name;
    const char *help;
    prometheus::MetricType type;
    std::optional<double> ProcessSample::*value;
};

constexpr Description described_families[] = {
    {"process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
     prometheus::MetricType::Counter, &ProcessSample::cpu_seconds},
    {"process_open_fds", "Number of open file descriptors.", prometheus::MetricType::Gauge,
     &ProcessSample::open_fds},
    {"process_max_fds", "Maximum number of open file descriptors.", prometheus::MetricType::Gauge,
     &ProcessSample::max_fds},
    {"process_virtual_memory_bytes", "Virtual memory size in bytes.", prometheus::MetricType::Gauge,
     &ProcessSample::virtual_bytes},
    {"process_virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes.",
     prometheus::MetricType::Gauge, &ProcessSample::virtual_max_bytes},
    {"process_resident_memory_bytes", "Resident memory size in bytes.",
     prometheus::MetricType::Gauge, &ProcessSample::resident_bytes},
    {"process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
     prometheus::MetricType::Gauge, &ProcessSample::start_time},
    {"process_threads", "Number of operating system threads.", prometheus::MetricType::Gauge,
     &ProcessSample::threads},
};

}  // namespace

Result<ProcessSample> parse_process_stat(std::string_view stat, std::optional<double> boot_time) {
    // The second field is the program's name in parentheses, which may contain spaces and
    // parentheses: fields are counted from the last parenthesis. proc(5) numbers them from 1;
    // `field(3)` is the state.
    const std::size_t name_end = stat.rfind(')');
    if (name_end == std::string_view::npos) {
        return fail("no program name in a process's stat file");
    }
    const std::vector<std::string_view> fields = split(stat.substr(name_end + 1));
    const auto field = [&](std::size_t n) -> std::optional<double> {
        return n - 3 < fields.size() ? number(fields[n - 3]) : std::nullopt;
    };
    const std::optional<double> user = field(14);
    const std::optional<double> system = field(15);
    const std::optional<double> threads = field(20);
    const std::optional<double> start = field(22);
    const std::optional<double> virtual_bytes = field(23);
    const std::optional<double> resident_pages = field(24);
    if (!user || !system || !threads || !start || !virtual_bytes || !resident_pages) {
        return fail("a field is missing in a process's stat file");
    }
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    ProcessSample sample;
    sample.cpu_seconds = (*user + *system) / ticks;
    sample.threads = *threads;
    sample.virtual_bytes = *virtual_bytes;
    sample.resident_bytes = *resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
    if (boot_time) {
        sample.start_time = *boot_time + *start / ticks;
    }
    return sample;
}

ProcessSample read_own_process() {
    ProcessSample sample;
    if (const std::optional<std::string> stat = read_text("/proc/self/stat")) {
        sample = parse_process_stat(*stat, boot_time()).value_or(ProcessSample{});
    }
    sample.open_fds = count_open_fds();
    sample.max_fds = limit(RLIMIT_NOFILE);
    sample.virtual_max_bytes = limit(RLIMIT_AS);
    return sample;
}

std::vector<prometheus::MetricFamily> process_families(const ProcessSample &sample) {
    std::vector<prometheus::MetricFamily> families;
    for (const Description &description : described_families) {
        const std::optional<double> &value = sample.*description.value;
        if (!value) {
            continue;
        }
        prometheus::ClientMetric metric;
        if (description.type == prometheus::MetricType::Counter) {
            metric.counter.value = *value;
        } else {
            metric.gauge.value = *value;
        }
        families.push_back(
            {description.name, description.help, description.type, {std::move(metric)}});
    }
    return families;
}

prometheus::MetricFamily build_info(const std::string &libbpf_version) {
    prometheus::ClientMetric metric;
    metric.label = {
        {"version", GPUSNOOP_VERSION},
        {"revision", GPUSNOOP_REVISION},
#if defined(__clang__)
        {"compiler", __VERSION__},
#else
        {"compiler", "gcc " __VERSION__},
#endif
        {"libbpf", libbpf_version},
    };
    metric.gauge.value = 1;
    return {"gpusnoop_build_info",
            "Always 1; the labels show the version, the revision, the compiler and the libbpf "
            "that it was built with.",
            prometheus::MetricType::Gauge,
            {std::move(metric)}};
}

}  // namespace gpusnoop::metrics
