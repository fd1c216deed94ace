// The names of call sites in Python.
#include "exporter/probes/frame/python/stacks.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

struct NamedPlace {
    std::string path, function;
    std::optional<std::uint32_t> line;
};

std::vector<PythonSiteFrame> site_frames(const std::vector<NamedPlace> &places) {
    std::vector<PythonSiteFrame> frames;
    for (const auto &[path, function, line] : places) {
        frames.push_back(python_site_frame({.path = path, .function = function, .line = line}));
    }
    return frames;
}

std::string python_label(const std::vector<NamedPlace> &places) {
    return python_site_label(site_frames(places));
}

std::string backward_label(const std::vector<NamedPlace> &places) {
    return python_backward_label(site_frames(places));
}

}  // namespace

TEST_CASE("a site in Python is the innermost function, and the two innermost of the program") {
    const std::string packages = "/opt/conda/lib/python3.11/site-packages/";
    CHECK(python_label({{packages + "torch/allocator.py", "empty", 88},
                        {packages + "torch/nn/module.py", "Module._call_impl", 1501},
                        {"/home/me/model.py", "Model.forward", 212},
                        {"/usr/lib/python3/dist-packages/accelerate.py", "step", 3},
                        {"/usr/lib/python3.11/threading.py", "Thread.run", 982},
                        {"/usr/lib64/python3.9/asyncio/runners.py", "run", 44},
                        {"<frozen runpy>", "_run_code", 88},
                        {"train.py", "main", 40},
                        {"train.py", "<module>", 50}}) ==
          "allocator.py:empty:88 < model.py:Model.forward:212 < train.py:main:40");
    CHECK(python_label({{"a.py", "f", 1}, {"b.py", "g", 2}, {"c.py", "h", 3}, {"d.py", "i", 4}}) ==
          "a.py:f:1 < b.py:g:2 < c.py:h:3");
    CHECK(python_label({{"a.py", "f", std::nullopt}}) == "a.py:f");
    CHECK(python_label({{packages + "a.py", "f", 1}, {packages + "b.py", "g", 2}}) == "a.py:f:1");
}

TEST_CASE("functions of Python's that are not known are left out") {
    CHECK(python_label({}).empty());
    CHECK(python_label({{"", "", std::nullopt}}).empty());
    CHECK(python_label({{"", "", std::nullopt}, {"a.py", "f", 1}, {"", "", 7}, {"b.py", "g", 2}}) ==
          "a.py:f:1 < b.py:g:2");
}

TEST_CASE("a function of Python's that calls itself is shown once") {
    CHECK(python_label({{"a.py", "fall", 9},
                        {"a.py", "fall", 7},
                        {"a.py", "fall", 7},
                        {"a.py", "fall", 7},
                        {"a.py", "main", 12}}) == "a.py:fall:9 < a.py:fall:7 < a.py:main:12");
}

TEST_CASE("threads of autograd have the lines of the main thread that waits for them") {
    const std::string autograd = "/opt/conda/lib/python3.11/site-packages/torch/autograd/";
    CHECK(
        backward_label({{autograd + "graph.py", "_engine_run_backward", 825},
                        {autograd + "__init__.py", "backward", 347},
                        {"/opt/conda/lib/python3.11/site-packages/torch/_tensor.py", "backward", 9},
                        {"train.py", "Trainer.step", 40},
                        {"train.py", "Trainer.step", 40},
                        {"train.py", "main", 7},
                        {"train.py", "<module>", 9}}) ==
        "[backward] < train.py:Trainer.step:40 < train.py:main:7");
    // Without a function of the program's, and while the main thread does something else.
    CHECK(backward_label({{autograd + "graph.py", "_engine_run_backward", 825}}) == "[backward]");
    CHECK(backward_label({{"train.py", "load", 12}, {autograd + "graph.py", "f", 1}}) ==
          "[backward]");
    CHECK(backward_label({{"", "", std::nullopt}, {autograd + "graph.py", "f", 1}}) ==
          "[backward]");
    CHECK(backward_label({}) == "[backward]");
}

TEST_CASE("files that notebooks and packages make have one name each") {
    CHECK(python_label({{"/tmp/ipykernel_1234/567.py", "train", 3}}) == "[notebook]:train:3");
    CHECK(python_label({{"<ipython-input-7-8e0d7f>", "<module>", 1}}) == "[notebook]:<module>:1");
    CHECK(python_label({{"/tmp/torchinductor_me/ab/cab.py", "call", 33},
                        {"/tmp/torchinductor_me/cd/cde.py", "call", 44},
                        {"train.py", "step", 5}}) == "[torchinductor]:call < train.py:step:5");
    CHECK(python_label({{"<eval_with_key>.17", "forward", 5}, {"train.py", "step", 5}}) ==
          "[generated]:forward < train.py:step:5");
    CHECK(python_label({{"<string>", "<module>", 1}, {"<stdin>", "f", 2}}) ==
          "<string>:<module>:1 < <stdin>:f:2");
}

TEST_CASE("the name of a site in Python is short, and safe for a terminal") {
    const std::string label = python_label({{"a.py", std::string(300, 'f'), 1},
                                            {"b.py", std::string(300, 'g'), 22},
                                            {"c.py", std::string(300, 'h'), 333}});
    CHECK(label.size() <= 128);
    CHECK(label.ends_with("h:333"));
    CHECK(python_label({{"a\x1b[2J.py", "f\n", 1}}).find('\x1b') == std::string::npos);
}
