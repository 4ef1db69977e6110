// Shared parts of the commands: the database that they use, and their output.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/load.hpp"
#include "config/reload.hpp"
#include "dovetail/dovetail.hpp"

namespace dovetail::cli {

struct Globals {
  // The flags, as they were given; resolve() replaces the values of absent ones.
  std::string config;  ///< The path of the configuration file.
  std::string database;
  std::string group;              ///< The path of the file; instead of `database`.
  std::vector<std::string> only;  ///< The values of --only, as they were given.
  std::string schema;
  std::string log_level;
  std::vector<config::FlagValue> flags;  ///< Of add_setting().
  bool json = false;
  bool pooled = false;

  // After resolve():
  config::Loaded loaded;        ///< The configuration.
  config::Sources loaded_from;  ///< Its sources.
  std::shared_ptr<config::LevelSink> log_sink;

  /// Called after the flags of `command` were read. Loads the configuration: flags, environment,
  /// file, defaults. Throws std::invalid_argument when there is neither a database nor a group, or
  /// when there are both. A command that does not work on groups gets the one database of the group
  /// that --only names; otherwise it is refused.
  void resolve(const CLI::App& command, const std::string& default_schema);
  /// The sources of the configuration, before resolve().
  [[nodiscard]] config::Sources sources(const CLI::App& command) const;
  [[nodiscard]] bool has_group() const { return !group.empty(); }
  /// The options of a command that does not start services: it does not deploy the schema.
  [[nodiscard]] PlatformOptions options() const;
  /// The options of a command that starts services.
  [[nodiscard]] PlatformOptions service_options() const;
  [[nodiscard]] GroupOptions group_service_options() const;
  [[nodiscard]] Platform open() const;

  std::set<const CLI::App*> group_commands;  ///< The commands of allow_group().
  const CLI::App* server_command = nullptr;  ///< It also checks the settings of the server.

 private:
  void choose_database(const CLI::App& command);
};

/// Ends the command with this exit code. The thrower has printed the message.
struct ExitCode {
  int code;
};

/// Adds the options that every command has: the database, the schema, the log level. Each level of
/// commands has them, so that they may stand before or after a command's name.
void add_global_options(CLI::App& app, Globals& globals,
                        const std::string& default_schema = "infra");

/// Adds a command with the global options; `run` is called when the user gave this command.
CLI::App& add_command(CLI::App& parent, Globals& globals, const std::string& name,
                      const std::string& description, std::function<void()> run,
                      const std::string& default_schema = "infra");

/// Shows --group and --only in the help of this command, which works on groups. Other commands work
/// on one database of the group.
void allow_group(CLI::App& command, Globals& globals);

/// Adds a flag that is the setting `name`. It overrides the other layers of the configuration. The
/// flag of a list may be repeated; a boolean one has no value.
void add_setting(CLI::App& command, Globals& globals, const std::string& flag,
                 const std::string& name, const std::string& description);

/// Adds a name with subcommands, such as `jobs`. The name alone is not a command.
CLI::App& add_group(CLI::App& app, Globals& globals, const std::string& name,
                    const std::string& description);

void add_bench(CLI::App& app, Globals& globals);
void add_config(CLI::App& app, Globals& globals);
void add_migrate(CLI::App& app, Globals& globals);
void add_grants(CLI::App& app, Globals& globals);
void add_enqueue(CLI::App& app, Globals& globals);
void add_claim(CLI::App& app, Globals& globals);
void add_settlements(CLI::App& app, Globals& globals);
void add_reap(CLI::App& app, Globals& globals);
void add_server(CLI::App& app, Globals& globals);  ///< With DOVETAIL_SERVER.
void add_status(CLI::App& app, Globals& globals);
void add_schedule(CLI::App& app, Globals& globals);
void add_dead_letters(CLI::App& app, Globals& globals);
void add_inbox(CLI::App& app, Globals& globals);
void add_joins(CLI::App& app, Globals& globals);
void add_health(CLI::App& app, Globals& globals);
void add_instances(CLI::App& app, Globals& globals);
void add_leases(CLI::App& app, Globals& globals);
void add_lock(CLI::App& app, Globals& globals);
void add_streams(CLI::App& app, Globals& globals);
void add_events(CLI::App& app, Globals& globals);
void add_subscriptions(CLI::App& app, Globals& globals);
void add_topics(CLI::App& app, Globals& globals);
void add_publish(CLI::App& app, Globals& globals);
void add_consume(CLI::App& app, Globals& globals);
void add_transports(CLI::App& app, Globals& globals);
void add_timers(CLI::App& app, Globals& globals);
void add_jobs(CLI::App& app, Globals& globals);
void add_fanout(CLI::App& app, Globals& globals);
void add_cron(CLI::App& app, Globals& globals);
void add_work(CLI::App& app, Globals& globals);

inline constexpr const char* default_queue = "outbox";
/// Adds `--queue`. Names that queue_named() does not know are refused.
void add_queue_option(CLI::App& command, std::string& queue);
/// `outbox`, `inbox` or `timers`.
[[nodiscard]] WorkQueue& queue_named(Platform& platform, const std::string& name);

/// Prints rows under their headings, each column as wide as its widest cell. Line breaks and other
/// control characters are shown as spaces: a row is a line.
void print_table(const std::vector<std::string>& headings,
                 const std::vector<std::vector<std::string>>& rows);

/// The number of changed things, and the number of things that the user named.
struct Effect {
  std::string word;
  std::size_t count = 0;
  std::optional<std::size_t> asked{};
  std::string why_not{};  ///< Why a named thing may not have changed, for people.
};

/// `acked 1 of 2`, or {"acked":1,"asked":2}. Says on standard error why some of the named things
/// did not change. Throws ExitCode 1 when things were named and none of them changed.
void print_effect(const Globals& globals, const Effect& effect);

/// The time, or a dash for none.
[[nodiscard]] std::string or_dash(const std::optional<WallTime>& time);

/// `text`, cut to this number of characters.
[[nodiscard]] std::string shortened(const std::string& text, std::size_t characters);
inline constexpr std::size_t shown_error_characters = 60;  // in a table

/// Accepts valid topics.
[[nodiscard]] CLI::Validator topic_rule();
/// Tells the user of `--topic a,b` that this is one topic.
void warn_of_commas(const std::vector<std::string>& topics);
/// Accepts the texts that parse_time() accepts. An empty text, which a script may pass by mistake,
/// is refused.
[[nodiscard]] CLI::Validator time_rule();

/// Throws std::invalid_argument that names `what`.
[[nodiscard]] WallTime parse_time(const std::string& what, const std::string& text);
/// Returns nullopt for an empty text.
[[nodiscard]] std::optional<WallTime> parse_time_if_given(const std::string& what,
                                                          const std::string& text);

struct SecondsRange {
  std::chrono::milliseconds least;
  std::chrono::milliseconds most;
};
inline constexpr SecondsRange lease_range{std::chrono::milliseconds{1}, std::chrono::hours{24}};
inline constexpr SecondsRange delay_range{std::chrono::milliseconds{0},
                                          std::chrono::hours{24 * 365}};
inline constexpr SecondsRange age_range{std::chrono::milliseconds{0},
                                        std::chrono::hours{24 * 3650}};

/// Throws std::out_of_range that names `what` and the range.
[[nodiscard]] std::chrono::milliseconds parse_seconds(const std::string& what, double seconds,
                                                      const SecondsRange& range);

template <class IdType>
[[nodiscard]] IdType parse_id(const std::string& what, const std::string& text) {
  auto id = IdType::parse(text);
  if (!id) {
    throw std::invalid_argument(
        what + " must be a UUID such as 0190163d-8694-739b-aea5-966c26f8ad91, got \"" + text +
        "\"");
  }
  return *id;
}

}  // namespace dovetail::cli
