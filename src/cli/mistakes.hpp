// Error messages for calls that CLI11 does not understand. They name the nearest command or option.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>

namespace dovetail::cli {

/// The command with its parents, such as `dovetail dead-letters list`.
[[nodiscard]] std::string path_of(const CLI::App& app);

/// The error message for words that name no command, such as `stauts` or `dead-letters lst`;
/// nullopt if they name one.
[[nodiscard]] std::optional<std::string> unknown_command(const CLI::App& app,
                                                         std::span<const std::string> words);

/// The error message for a call that CLI11 has refused.
[[nodiscard]] std::string refusal(const CLI::App& app, std::span<const std::string> words,
                                  const CLI::ParseError& error);

}  // namespace dovetail::cli
