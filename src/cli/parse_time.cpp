#include <date/date.h>

#include <sstream>

#include "cli/cli.hpp"

namespace dovetail::cli {

WallTime parse_time(const std::string& what, const std::string& text) {
  for (const char* format : {"%FT%TZ", "%FT%T%Ez"}) {
    std::istringstream in{text};
    WallTime time{};
    in >> date::parse(format, time);
    if (in && in.peek() == std::char_traits<char>::eof()) return time;
  }
  throw std::invalid_argument(what +
                              " must be a time such as 2026-01-31T09:30:00Z or 2026-01-31T10:30:00+01:00");
}

CLI::Validator time_rule() {
  const auto check = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(parse_time("it", text));
      return {};
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  };
  return {check, {}};
}

std::optional<WallTime> parse_time_if_given(const std::string& what, const std::string& text) {
  if (text.empty()) return std::nullopt;
  return parse_time(what, text);
}

}  // namespace dovetail::cli
