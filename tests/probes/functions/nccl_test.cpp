// What NCCL's arguments say, on the page against what the program asked for.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <ctime>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// Of the lines that ranks.cpp names.
struct FunctionsNcclTruth {
    std::map<Labels, std::pair<double, double>> done;
    std::map<Labels, double> sequences;
    double operations = 0;
    double bytes = 0;
    double failures = 0;

    explicit FunctionsNcclTruth(const std::string &output) {
        std::istringstream lines(output);
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::vector<std::string> word;
            for (std::string one; words >> one;) {
                word.push_back(one);
            }
            if (word.size() == 9 && word[0] == "truth") {
                Labels labels{{"function", word[1]},
                              {"datatype", word[2]},
                              {"op", word[3] == "-" ? "" : word[3]},
                              {"communicator", word[4]},
                              {"rank", word[5]},
                              {"nranks", word[6]}};
                if (word[4] == "*") {
                    labels.erase("communicator");
                }
                done[labels] = {std::stod(word[7]), std::stod(word[8])};
                operations += std::stod(word[7]);
                bytes += std::stod(word[8]);
            } else if (word.size() == 5 && word[0] == "sequence") {
                sequences[{{"communicator", word[1]}, {"rank", word[2]}, {"nranks", word[3]}}] =
                    std::stod(word[4]);
            } else if (word.size() == 2 && word[0] == "failures") {
                failures = std::stod(word[1]);
            }
        }
    }
};

// The name of the communicator with 7 ranks cannot be foreseen.
std::map<Labels, double> by_operation(const Page &page, const std::string &name, const Labels &of) {
    std::map<Labels, double> found;
    for (const Sample &sample : page.samples(name, of)) {
        Labels labels;
        for (const char *label : {"function", "datatype", "op", "communicator", "rank", "nranks"}) {
            const auto value = sample.labels.find(label);
            labels[label] = value == sample.labels.end() ? "" : value->second;
        }
        if (labels["nranks"] == "7") {
            labels.erase("communicator");
        }
        found[labels] += sample.value;
    }
    return found;
}

// The library is the stand-in of NCCL, also under another name. The program maps others beside it.
void check_ranks(const std::string &mode, const std::filesystem::path &library, int rounds = 23,
                 const std::string &others = "") {
    const Exporter exporter(
        "cuda: {enabled: false}\nseries: {budget: 20000}\nfunctions: {attach: " + mode + "}\n");
    const TemporaryDirectory directory;
    const Process ranks({"env", "LD_PRELOAD=" + library.string() + " " + others, standin("ranks"),
                         "--ranks", "5", "--rounds", std::to_string(rounds), "--wait-for-file",
                         directory / "go"});
    exporter.wait_until_attached_to(library);
    write_file(directory / "go", "");
    ranks.wait_for_output("holding");
    const FunctionsNcclTruth truth(ranks.output());
    REQUIRE(truth.done.size() > static_cast<std::size_t>(130 * rounds));

    const Labels of = {{"comm", "ranks"}, {"library", library.filename()}};
    const Page page = exporter.wait_for("gpusnoop_nccl_operations_total", of, truth.operations);
    CHECK(page.sum("gpusnoop_nccl_bytes_total", of) == truth.bytes);
    const auto operations = by_operation(page, "gpusnoop_nccl_operations_total", of);
    const auto bytes = by_operation(page, "gpusnoop_nccl_bytes_total", of);
    CHECK(operations.size() == truth.done.size());
    for (const auto &[labels, done] : truth.done) {
        INFO(labels.at("function")
             << " " << labels.at("datatype") << " " << labels.at("op") << " rank "
             << labels.at("rank") << " of " << labels.at("nranks") << ", communicator "
             << (labels.contains("communicator") ? labels.at("communicator") : "of all"));
        REQUIRE(operations.contains(labels));
        REQUIRE(operations.at(labels) == done.first);
        REQUIRE(bytes.at(labels) == done.second);
    }
    // Of one thread with all ranks, which is a communicator of its own.
    CHECK(page.sum("gpusnoop_nccl_sequence", {{"comm", "ranks"}, {"nranks", "7"}}) == 7 * 5);
    double collectives = 7 * 5;
    for (const auto &[labels, sequence] : truth.sequences) {
        INFO("rank " << labels.at("rank") << " of communicator " << labels.at("communicator"));
        CHECK(page.sum("gpusnoop_nccl_sequence", labels) == sequence);
        collectives += sequence;
    }
    CHECK(page.sum("gpusnoop_nccl_sequence", {{"comm", "ranks"}}) == collectives);
    CHECK(page.sum("gpusnoop_function_errors_total",
                   {{"comm", "ranks"}, {"error", "ncclInvalidArgument"}}) == truth.failures);
    check_nothing_lost(page);
}

}  // namespace

TEST_CASE("NCCL's operations and bytes are those of their arguments, by communicator and rank",
          "[kernel][core]") {
    require_bpf();
    check_ranks(attach_modes().front(), standin("libnccl.so.2"));
}

TEST_CASE("communicators are counted on another kernel", "[.guest]") {
    check_ranks("auto", standin("libnccl.so.2"), 5);  // of which each makes one in another way
}

TEST_CASE("the operations of RCCL count as those of NCCL", "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    const auto library = std::filesystem::path(directory / "librccl.so.1");
    std::filesystem::copy_file(standin("libnccl.so.2"), library);
    check_ranks("auto", library);
}

TEST_CASE("NCCL in a library of another name is counted by its exports", "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    const auto library = std::filesystem::path(directory / "xla_cuda_plugin.so");
    std::filesystem::copy_file(standin("libnccl.so.2"), library);
    check_ranks("auto", library, 23, standin("12/libcudart.so.12"));
}

TEST_CASE("the page shows which rank is behind, and since when, until the communicator ends",
          "[kernel]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter("cuda: {enabled: false}\nfunctions: {attach: " + mode + "}\n");
    const TemporaryDirectory directory;
    const auto rank = [&](int number, int collectives) {
        return std::vector<std::string>{standin("ranks"),
                                        "--ranks",
                                        "16",
                                        "--only",
                                        std::to_string(number),
                                        "--collectives",
                                        std::to_string(collectives),
                                        "--wait-for-file",
                                        directory / std::to_string(number)};
    };
    const auto before = static_cast<double>(std::time(nullptr));
    const Process ahead(rank(3, 20));
    const Process behind(rank(12, 19));
    exporter.wait_until_attached_to(standin("libnccl.so.2"));
    for (const char *number : {"3", "12"}) {
        write_file(directory / number, "");
    }
    ahead.wait_for_output("behind");
    behind.wait_for_output("behind");
    write_file(directory / "3.more", "");
    ahead.wait_for_output("ahead");

    std::istringstream words(ahead.output().substr(ahead.output().find("communicator ")));
    std::string communicator;
    words >> communicator >> communicator;
    CHECK(communicator.size() == 8);
    const auto of = [&](int number) {
        return Labels{
            {"communicator", communicator}, {"rank", std::to_string(number)}, {"nranks", "16"}};
    };
    const Page page = exporter.wait_for("gpusnoop_nccl_sequence", of(3), 21);
    CHECK(page.sum("gpusnoop_nccl_sequence", of(12)) == 19);
    const double moved = page.sum("gpusnoop_nccl_last_operation_timestamp_seconds", of(3));
    const double stands = page.sum("gpusnoop_nccl_last_operation_timestamp_seconds", of(12));
    CHECK(stands >= before - 1);
    CHECK(moved > stands);
    CHECK(moved <= static_cast<double>(std::time(nullptr)) + 1);

    write_file(directory / "3.abort", "");
    ahead.wait_for_output("holding");
    const Page after = exporter.wait_for("gpusnoop_nccl_sequence", of(3), 0);
    CHECK(after.sum("gpusnoop_nccl_sequence", of(12)) == 19);
    CHECK(after.sum("gpusnoop_nccl_operations_total", of(3)) == 41);
}
