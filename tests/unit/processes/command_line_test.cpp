// Which script a process runs, by its arguments.
#include "exporter/processes/command_line.h"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using namespace gpusnoop::processes;

namespace {

// By a line of words between single blanks; `''` is an empty word.
std::string script(std::string_view line, std::string_view comm = "") {
    std::vector<std::string> arguments;
    while (!line.empty()) {
        const std::size_t end = std::min(line.find(' '), line.size());
        const std::string word(line.substr(0, end));
        arguments.push_back(word == "''" ? "" : word);
        line.remove_prefix(std::min(end + 1, line.size()));
    }
    return script_of(arguments, comm);
}

std::vector<std::string> split(std::string_view head, std::string_view rest = {},
                               std::size_t rest_at = 0, std::size_t total = 0) {
    return split_arguments({head, rest, rest_at, total == 0 ? head.size() : total});
}

using Arguments = std::vector<std::string>;
using namespace std::string_view_literals;

}  // namespace

TEST_CASE("the script of Python") {
    CHECK(script("python3 train.py") == "train.py");
    CHECK(script("/usr/bin/python3.12 -u /src/train.py --lr 3") == "train.py");
    CHECK(script("/opt/venv/bin/python3.13t ./train.py") == "train.py");
    CHECK(script("pypy3 train.py") == "train.py");
    CHECK(script("python -m torch.distributed.run --nproc_per_node 8 train.py") ==
          "torch.distributed.run");
    CHECK(script("python -um mod a.py") == "mod");
    CHECK(script("python -mmod a.py") == "mod");
    CHECK(script("python3 -X opt -W ignore train.py") == "train.py");
    CHECK(script("python3 -Xopt -Wignore -OO -bEs train.py") == "train.py");
    CHECK(script("python3 -uX opt train.py") == "train.py");
    CHECK(script("python3 --check-hash-based-pycs always train.py") == "train.py");
    CHECK(script("python3 --check-hash-based-pycs=always train.py") == "train.py");
    CHECK(script("python3 -- -odd.py") == "-odd.py");
    CHECK(script("python3 /app/package/") == "package");
    CHECK(script("/opt/conda/bin/python /opt/conda/bin/torchrun --nproc_per_node=8 train.py") ==
          "torchrun");
    CHECK(script("/opt/conda/bin/python -u train.py --local_rank=0") == "train.py");
    // Code and input have no name.
    CHECK(script("python3 -c pass train.py") == "");
    CHECK(script("python3 -uc pass") == "");
    CHECK(script("python3 -cpass") == "");
    CHECK(script("python3 - train.py") == "");
    CHECK(script("python3") == "");
    CHECK(script("python3 -u") == "");
    CHECK(script("python3 -m") == "");
    CHECK(script("python3 -W") == "");
    CHECK(script("python3 --") == "");
    CHECK(script("python3 ''") == "");
    CHECK(script("python3 /dev/stdin") == "");
    CHECK(script("python3 /proc/self/fd/3") == "");
}

TEST_CASE("the script of a shell") {
    CHECK(script("bash run.sh") == "run.sh");
    CHECK(script("/bin/sh ./run.sh -c no") == "run.sh");
    CHECK(script("-bash") == "");
    CHECK(script("bash -euo pipefail run.sh") == "run.sh");
    CHECK(script("bash -e +o posix -O extglob run.sh") == "run.sh");
    CHECK(script("bash --rcfile /etc/rc --norc run.sh") == "run.sh");
    CHECK(script("bash -c run.sh") == "");
    CHECK(script("bash -ec run.sh") == "");
    CHECK(script("sh -s run.sh") == "");
    CHECK(script("fish --command=x run.sh") == "");
    CHECK(script("fish -C code run.fish") == "run.fish");
    CHECK(script("fish --init-command code -N run.fish") == "run.fish");
    CHECK(script("zsh --emulate sh run.sh") == "run.sh");
    CHECK(script("bash /dev/fd/63") == "");
}

TEST_CASE("the script of other interpreters") {
    CHECK(script("node --max-old-space-size=4096 -r dotenv /app/server.js") == "server.js");
    CHECK(script("nodejs --require x --import=y server.mjs") == "server.mjs");
    CHECK(script("node -e code x.js") == "");
    CHECK(script("node --eval code") == "");
    CHECK(script("node --print=1 x.js") == "");
    CHECK(script("node -pe 1") == "");
    CHECK(script("perl -w -Mstrict -I lib tool.pl") == "tool.pl");
    CHECK(script("perl5.36.0 -Ilib tool.pl") == "tool.pl");
    CHECK(script("perl -lane print x") == "");
    CHECK(script("perl -i.bak -pe s/a/b/ x") == "");
    CHECK(script("ruby3.1 -rjson -I lib -W0 app.rb") == "app.rb");
    CHECK(script("ruby -e 1 app.rb") == "");
    CHECK(script("Rscript --vanilla fit.R 3") == "fit.R");
    CHECK(script("Rscript -e 1") == "");
    CHECK(script("/usr/lib/R/bin/exec/R --no-echo --no-restore --file=/src/fit.R --args 3") ==
          "fit.R");
    CHECK(script("julia --project=. -t 4 -O3 fit.jl") == "fit.jl");
    CHECK(script("julia --threads 4 -e 1") == "");
    CHECK(script("julia -m Fit") == "Fit");
}

TEST_CASE("the program of Java") {
    CHECK(script("java -jar /opt/x.jar a b") == "x.jar");
    CHECK(script("/usr/lib/jvm/bin/java -Xmx4g -Da=b -cp a.jar:b.jar org.apache.spark.Deploy x") ==
          "org.apache.spark.Deploy");
    CHECK(script("java -classpath a --add-opens b=c --module-path=d Main") == "Main");
    CHECK(script("java -p mods -m com.app/com.app.Main x") == "com.app/com.app.Main");
    CHECK(script("java --module=com.app/com.app.Main") == "com.app/com.app.Main");
    CHECK(script("java -ea @options Main") == "Main");
    CHECK(script("java /src/Hello.java") == "Hello.java");
    CHECK(script("java --source 21 --limit-modules java.base /src/Hello") == "Hello");
    CHECK(script("java -cp") == "");
    CHECK(script("java -jar") == "");
    CHECK(script("java") == "");
}

TEST_CASE("a program that is no interpreter has no script") {
    CHECK(script("/usr/bin/nvidia-smi dmon") == "");
    CHECK(script("pythonista train.py") == "");
    CHECK(script("python-config --libs") == "");
    CHECK(script("nodetool status") == "");
    CHECK(script("'' train.py") == "");
    CHECK(script_of({}, "python3") == "");
}

TEST_CASE("the process's name helps if its first argument is no interpreter's") {
    CHECK(script("worker train.py", "python3") == "train.py");
    CHECK(script("train.py train.py", "train.py") == "");
    CHECK(script("bash run.sh", "python3") == "run.sh");
}

TEST_CASE("arguments end with a NUL each") {
    CHECK(split("a\0b\0\0c\0"sv) == Arguments{"a", "b", "", "c"});
    CHECK(split("").empty());
    CHECK(split("a\0b"sv) == Arguments{"a", "b"});  // overwritten
    // The head ends in an argument whose end was not read.
    CHECK(split("a\0b"sv, "", 0, 100) == Arguments{"a"});
    // The rest begins in the head, at its end, or behind it.
    CHECK(split("a\0bcd"sv, "cdef\0g\0"sv, 3, 10) == Arguments{"a", "bcdef", "g"});
    CHECK(split("a\0bcd"sv, "ef\0g\0"sv, 5, 10) == Arguments{"a", "bcdef", "g"});
    CHECK(split("a\0bcd"sv, "yz\0g\0"sv, 50, 55) == Arguments{"a", "bcdyz", "g"});
    CHECK(split("a\0bcd"sv, "yz\0g"sv, 50, 60) == Arguments{"a", "bcdyz"});
    CHECK(split("a\0bcd"sv, "bc"sv, 2, 60) == Arguments{"a"});
    // What is left of "-cCODE" and "-eCODE" is no file's name.
    CHECK(split("a\0"sv, "DE\0g\0"sv, 50, 55) == Arguments{"a"});
    CHECK(split("a\0-"sv, "DE\0g\0"sv, 50, 55) == Arguments{"a"});
    CHECK(split("a\0-c"sv, "DE\0g\0"sv, 50, 55) == Arguments{"a", "-cDE", "g"});
}

TEST_CASE("any bytes as arguments give a script or none") {
    std::mt19937 random(20'261'123);
    constexpr std::string_view letters("-+cmeXWu=./\0\0 a\xff", 17);
    for (int i = 0; i < 20'000; i++) {
        std::string bytes = i % 2 == 0 ? std::string("python3\0", 8) : std::string("bash\0", 5);
        for (std::size_t n = random() % 40; n > 0; n--) {
            bytes += letters[random() % letters.size()];
        }
        const std::size_t head = random() % (bytes.size() + 1);
        const std::size_t rest = random() % (bytes.size() + 1);
        const auto arguments =
            split_arguments({std::string_view(bytes).substr(0, head),
                             std::string_view(bytes).substr(rest), rest, bytes.size()});
        CHECK(script_of(arguments, "java").size() <= 2 * bytes.size());
    }
}
