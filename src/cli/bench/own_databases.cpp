#include "cli/bench/own_databases.hpp"

#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "dovetail/error.hpp"
#include "runtime/engines.hpp"

namespace dovetail::cli::bench {
namespace {

std::string numbered(const std::string& stem, int number) {
  std::array<char, 16> digits{};
  std::snprintf(digits.data(), digits.size(), "%04d", number);
  return stem + digits.data();
}

std::string url_of_database(const std::string& url, const std::string& name) {
  return url + (url.find('?') == std::string::npos ? "?" : "&") + "dbname=" + name;
}

}  // namespace

void administrate(const Settings& settings, const std::string& sql) {
  const auto database = runtime::open_database(
      settings.url,
      storage::DatabaseOptions{.clock = system_clock(), .log = Logger{settings.platform.log_sink}});
  database->write({.single_statement = true},
                  [&](storage::WriteSession& session) { session.execute(sql, {}); });
}

OwnDatabases::OwnDatabases(const Settings& settings, int count) : settings_(settings) {
  try {
    for (int i = 0; i < count; ++i) {
      if (is_postgres(settings.url)) {
        const auto name = numbered("dovetail_bench_", i);
        administrate(settings, "create database " + name);
        names_.push_back(name);
        entries_.push_back({name, url_of_database(settings.url, name), {}});
      } else {
        names_.push_back(numbered(settings.url.substr(settings.url.find(':') + 1) + ".", i));
        entries_.push_back({numbered("file_", i), "sqlite:" + names_.back(), {}});
      }
    }
  } catch (...) {
    drop();
    throw;
  }
}

OwnDatabases::~OwnDatabases() {
  drop();
}

void OwnDatabases::drop() {
  for (const auto& name : names_) {
    try {
      if (is_postgres(settings_.url)) {
        administrate(settings_, "drop database if exists " + name + " with (force)");
      } else {
        for (const auto* suffix : {"", "-wal", "-shm", "-lock"}) {
          std::filesystem::remove(name + suffix);
        }
      }
    } catch (const std::exception& error) {
      std::cerr << "dovetail: cannot drop " << name << ": " << error.what() << '\n';
    }
  }
  names_.clear();
}

}  // namespace dovetail::cli::bench
