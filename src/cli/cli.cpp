#include "cli/cli.hpp"

#include <algorithm>
#include <iostream>
#include <map>

namespace dovetail::cli {
namespace {

LogLevel level_of(const std::string& word) {
  static const std::map<std::string, LogLevel> levels{{"debug", LogLevel::debug},
                                                      {"info", LogLevel::info},
                                                      {"warn", LogLevel::warn},
                                                      {"error", LogLevel::error},
                                                      {"off", LogLevel::off}};
  return levels.at(word);
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

PlatformOptions Globals::options() const {
  return {.schema = schema, .pooled = pooled, .log_sink = spdlog_log_sink(level_of(log_level))};
}

Platform Globals::open() const {
  return Platform::open(database, options());
}

CLI::App& add_command(CLI::App& parent, Globals& globals, const std::string& name,
                      const std::string& description, std::function<void()> run) {
  auto& command = *parent.add_subcommand(name, description);
  command.add_option("-d,--database", globals.database, "sqlite:<path> or postgresql://…")
      ->envname("DOVETAIL_DATABASE")
      ->required();
  command.add_option("--schema", globals.schema, "PostgreSQL schema, or prefix of SQLite's tables")
      ->envname("DOVETAIL_SCHEMA")
      ->capture_default_str();
  command.add_option("--log-level", globals.log_level, "debug, info, warn, error or off")
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  command.add_flag("--pooled", globals.pooled, "PostgreSQL is behind PgBouncer in transaction mode");
  command.callback(std::move(run));
  return command;
}

void print_table(const std::vector<std::string>& headings,
                 const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < headings.size(); ++column) {
    auto width = width_of(headings[column]);
    for (const auto& row : rows) width = std::max(width, width_of(row[column]));
    widths.push_back(width);
  }
  const auto print = [&](const std::vector<std::string>& cells) {
    for (std::size_t column = 0; column < cells.size(); ++column) {
      std::cout << cells[column];
      if (column + 1 < cells.size())
        std::cout << std::string(widths[column] - width_of(cells[column]) + 2, ' ');
    }
    std::cout << '\n';
  };
  print(headings);
  for (const auto& row : rows) print(row);
}

}  // namespace dovetail::cli
