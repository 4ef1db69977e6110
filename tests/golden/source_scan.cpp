#include "golden/source_scan.hpp"

#include <algorithm>
#include <regex>

#include "golden/golden_file.hpp"

namespace dovetail::testing {
namespace {

/// Replaces comments with blanks, so that positions do not change.
std::string without_comments(std::string text) {
  bool quoted = false;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '"' && (i == 0 || (text[i - 1] != '\\' && text[i - 1] != '\''))) {
      quoted = !quoted;
    }
    if (quoted || text.compare(i, 2, "//") != 0) continue;
    for (; i < text.size() && text[i] != '\n'; ++i) text[i] = ' ';
  }
  return text;
}

struct Arguments {
  std::vector<std::string> texts{1};
  std::size_t end = 0;  ///< The position after the closing parenthesis.
};

/// The arguments of the call whose parenthesis opens at `open`.
Arguments arguments_at(const std::string& text, std::size_t open) {
  Arguments arguments;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = open + 1; i < text.size(); ++i) {
    const char c = text[i];
    arguments.end = i + 1;
    if (c == '"' && text[i - 1] != '\\' && text[i - 1] != '\'') quoted = !quoted;
    if (!quoted) {
      if (c == '(' || c == '{' || c == '[') ++depth;
      if (c == ')' || c == '}' || c == ']') --depth;
      if (depth < 0) break;
      if (c == ',' && depth == 0) {
        arguments.texts.emplace_back();
        continue;
      }
    }
    arguments.texts.back() += c;
  }
  return arguments;
}

struct Definition {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string name{};
};

/// Functions of namespaces and of classes: clang-format indents them by zero or two columns.
std::vector<Definition> definitions_in(const std::string& text) {
  static const std::regex head(
      R"(\n( {0,2})(?! |\}|namespace|class|struct|enum|if|for|while|switch))"
      R"([^\n;{}(]*?([A-Za-z_]\w*)\()");
  static const std::regex body(R"(^\s*(const)?\s*(noexcept)?\s*(override)?\s*\{)");
  std::vector<Definition> found;
  for (std::sregex_iterator each(text.begin(), text.end(), head), end; each != end; ++each) {
    const auto begin = static_cast<std::size_t>(each->position(2));
    const auto behind = arguments_at(text, text.find('(', begin)).end;
    if (!std::regex_search(text.substr(behind, 60), body)) continue;
    const auto close = text.find("\n" + each->str(1) + "}", behind);
    found.push_back({begin, std::min(close, text.size()), each->str(2)});
  }
  return found;
}

void add_calls(const std::string& text, std::vector<FoundCall>& calls) {
  static const std::regex call(R"(\b((?:[A-Za-z_]\w*(?:\(\))?(?:\.|->))*)([A-Za-z_]\w*)\()");
  const auto definitions = definitions_in(text);
  for (std::sregex_iterator each(text.begin(), text.end(), call), end; each != end; ++each) {
    const auto open = static_cast<std::size_t>(each->position(0) + each->length(0)) - 1;
    FoundCall found{.object = each->str(1),
                    .function = each->str(2),
                    .arguments = arguments_at(text, open).texts};
    for (const auto& definition : definitions) {
      if (definition.begin < open && open < definition.end) {
        found.enclosing = definition.name;
        found.enclosing_body = text.substr(definition.begin, definition.end - definition.begin);
      }
    }
    calls.push_back(std::move(found));
  }
}

}  // namespace

namespace {

std::vector<FoundCall> scan() {
  std::vector<FoundCall> calls;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_dir / "src")) {
    const auto path = std::filesystem::relative(entry.path(), source_dir / "src").generic_string();
    const bool is_code = path.ends_with(".cpp") || path.ends_with(".hpp");
    if (is_code && !path.starts_with("cli/") && !path.starts_with("json/")) {
      add_calls(without_comments(contents(entry.path())), calls);
    }
  }
  return calls;
}

}  // namespace

const std::vector<FoundCall>& calls_in_library() {
  static const auto calls = scan();
  return calls;
}

std::vector<std::string> literals_in(const std::string& text) {
  static const std::regex literal(R"re("([a-z_.]+)")re");
  std::vector<std::string> found;
  for (std::sregex_iterator each(text.begin(), text.end(), literal), end; each != end; ++each) {
    found.push_back(each->str(1));
  }
  return found;
}

}  // namespace dovetail::testing
