// What the commands share: the database they talk to, and how they answer.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dovetail/dovetail.hpp"

namespace dovetail::cli {

struct Globals {
  std::string database;
  std::string schema = "infra";
  std::string log_level = "warn";
  bool json = false;
  bool pooled = false;

  [[nodiscard]] PlatformOptions options() const;
  [[nodiscard]] Platform open() const;
};

/// Adds a command with the options every command has; `run` is called when the user gave this command.
CLI::App& add_command(CLI::App& parent, Globals& globals, const std::string& name,
                      const std::string& description, std::function<void()> run);

void add_migrate(CLI::App& app, Globals& globals);
void add_enqueue(CLI::App& app, Globals& globals);
void add_claim(CLI::App& app, Globals& globals);
void add_ack(CLI::App& app, Globals& globals);
void add_status(CLI::App& app, Globals& globals);

/// Prints rows under their headings, each column as wide as its widest cell.
void print_table(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows);

/// Throws std::invalid_argument that names `what`.
[[nodiscard]] WallTime parse_time(const std::string& what, const std::string& text);
template <class IdType>
[[nodiscard]] IdType parse_id(const std::string& what, const std::string& text) {
  auto id = IdType::parse(text);
  if (!id) throw std::invalid_argument(what + " must be a UUID such as 0190163d-8694-739b-aea5-966c26f8ad91");
  return *id;
}

}  // namespace dovetail::cli
