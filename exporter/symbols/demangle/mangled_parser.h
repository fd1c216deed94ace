// Reads a mangled name from its front; every piece of text has a limit. For mangled_name.cpp
// (names) and mangled_types.cpp (template arguments and parameters) only.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::symbols {

class MangledParser {
public:
    static constexpr std::size_t max_input_bytes = 16 * 1024;
    static constexpr std::size_t max_name_text = 1024;  // bytes of a name; nothing is added over it
    static constexpr int max_depth = 64;                // of types in types
    static constexpr int max_local_depth = 16;          // of functions in functions
    static constexpr std::string_view cut = "...";      // stands for text that is not written

    // `input` is the text after the _Z.
    MangledParser(std::string_view input, std::size_t max_arguments)
        : rest_(input.substr(0, max_input_bytes)), max_arguments_(max_arguments) {}

    // <encoding> up to the end of its <name>.
    std::optional<std::string> function_name();
    // The same for its <bare-function-type>: how many parameters it lists.
    std::optional<std::size_t> parameter_count();

private:
    // These read the input. After giving up, the input is empty.
    bool take(std::string_view token);
    [[nodiscard]] char peek() const { return rest_.empty() ? '\0' : rest_.front(); }
    std::size_t number();
    void give_up();

    // Appends within a limit, so that substitutions of substitutions do not grow without end.
    static void append(std::string &text, std::string_view more, std::size_t limit);
    void add_substitution(const std::string &text);

    // Each of these appends to `text`, and gives up on unknown input.
    void name(std::string &text);
    void nested_name(std::string &text);
    void unscoped_name(std::string &text);
    void local_name(std::string &text);
    void unqualified_name(std::string &text);
    void unnamed_type(std::string_view kind, std::string &text);
    bool operator_name(std::string &text);
    bool constructor_name(std::string &text);
    void source_name(std::string &text);
    void substitution(std::string &text);
    [[nodiscard]] bool at_unqualified_name() const;

    void template_arguments(std::string &name);
    void argument_list(std::string &text);
    void literal(std::string &text);
    void type(std::string &text);
    void one_type(std::string &text);
    bool unwritten_type(std::string &text);
    void type_arguments(std::string &text);
    // Types up to the E that ends them; their text is not written.
    void skip_types();
    void skip_index();  // up to its "_"

    std::string_view rest_;
    std::size_t max_arguments_;
    std::vector<std::string> substitutions_;
    int depth_ = 0;
    int local_depth_ = 0;
    bool failed_ = false;
    bool usable_ = false;  // the text read before something unknown is a name
};

}  // namespace gpusnoop::symbols
