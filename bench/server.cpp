// The server under attack: `bench_server DATABASE [messages=N] [rounds=N] [slow=N] [streams=N]`.
// A worker and a Server share this process. Another process opens slow connections and event
// streams, and holds them, in every second round. Prints, as medians of the rounds,
//   the drain with and without the attack, and their ratio,
//   the time of /health/live and /health during the attack,
//   the memory of this process.
// The database must be empty.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dovetail/dovetail.hpp"
#include "dovetail/server.hpp"

namespace {

using namespace dovetail;
using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

struct Arguments {
  std::string url;
  int messages = 50'000;
  int rounds = 5;
  int slow = 2'000;
  int streams = 200;
};

Arguments parse(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: bench_server DATABASE [messages=N] [rounds=N] [slow=N] [streams=N]\n");
    std::exit(2);
  }
  Arguments arguments{.url = argv[1]};
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = [&](std::string_view name, int& target) {
      if (argument.starts_with(name)) target = std::atoi(argument.substr(name.size()).data());
    };
    value("messages=", arguments.messages);
    value("rounds=", arguments.rounds);
    value("slow=", arguments.slow);
    value("streams=", arguments.streams);
  }
  return arguments;
}

void allow_many_files() {
  struct rlimit files {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 16'384);
  ::setrlimit(RLIMIT_NOFILE, &files);
}

int connect_to(std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return socket;
  ::close(socket);
  return -1;
}

void send_text(int socket, std::string_view text) {
  static_cast<void>(::send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

// --- the attacker, in a process of its own: 'a' begins the attack, 'e' ends it

struct Attack {
  std::vector<int> slow;
  std::vector<int> streams;

  void begin(std::uint16_t port, const Arguments& arguments) {
    for (int i = 0; i < arguments.slow; ++i) {
      slow.push_back(connect_to(port));
      send_text(slow.back(), "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
    }
    for (int i = 0; i < arguments.streams; ++i) {
      streams.push_back(connect_to(port));
      send_text(streams.back(), "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
  }
  /// One byte of each slow header; and the events that arrived.
  void go_on() const {
    std::array<char, 4096> bytes{};
    for (const int socket : slow) send_text(socket, "a");
    for (const int socket : streams) {
      while (::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
      }
    }
  }
  void end() {
    for (const auto* sockets : {&slow, &streams}) {
      for (const int socket : *sockets) ::close(socket);
    }
    slow.clear();
    streams.clear();
  }
};

[[noreturn]] void attack_on_command(int commands, int answers, const Arguments& arguments) {
  std::uint16_t port = 0;
  if (::read(commands, &port, sizeof port) != sizeof port) std::_Exit(1);
  Attack attack;
  while (true) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(commands, &set);
    timeval pause{.tv_sec = 1, .tv_usec = 0};
    if (::select(commands + 1, &set, nullptr, nullptr, &pause) == 0) {
      attack.go_on();
      continue;
    }
    char command = 0;
    if (::read(commands, &command, 1) != 1) std::_Exit(0);
    if (command == 'a') attack.begin(port, arguments);
    if (command == 'e') attack.end();
    if (::write(answers, &command, 1) != 1) std::_Exit(1);
  }
}

class Attacker {
 public:
  explicit Attacker(const Arguments& arguments) {
    if (::pipe(commands_) != 0 || ::pipe(answers_) != 0) std::exit(1);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::close(commands_[1]);
    attack_on_command(commands_[0], answers_[1], arguments);
  }
  ~Attacker() {
    ::close(commands_[1]);
    ::waitpid(pid_, nullptr, 0);
  }
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  void aim_at(std::uint16_t port) { static_cast<void>(!::write(commands_[1], &port, sizeof port)); }
  void command(char what) {
    static_cast<void>(!::write(commands_[1], &what, 1));
    static_cast<void>(!::read(answers_[0], &what, 1));
  }

 private:
  int commands_[2]{};
  int answers_[2]{};
  pid_t pid_ = 0;
};

// --- the measurements

/// The time of one request with a new connection, in milliseconds; negative if it failed.
double time_of(std::uint16_t port, const std::string& path) {
  const auto start = Steady::now();
  const int socket = connect_to(port);
  send_text(socket, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  std::array<char, 4096> bytes{};
  const auto size = ::recv(socket, bytes.data(), bytes.size(), 0);
  ::close(socket);
  if (size < 12 || std::string_view(bytes.data(), 12) != "HTTP/1.1 200") return -1;
  return std::chrono::duration<double, std::milli>(Steady::now() - start).count();
}

double at(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

double memory_mib(const char* what) {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(what)) return std::stod(line.substr(line.find(':') + 1)) / 1024;
  }
  return 0;
}

class Drain {
 public:
  explicit Drain(Platform& platform) : platform_(platform) {
    platform.on("drain", [this](const Message&, HandlerContext&) { ++handled_; });
  }
  /// Messages per second.
  double run(int messages) {
    handled_ = 0;
    auto transaction = platform_.begin();
    std::vector<EnqueueRequest> batch(1'000, {.topic = "drain", .payload = "{}"});
    for (int left = messages; left > 0; left -= static_cast<int>(batch.size())) {
      batch.resize(static_cast<std::size_t>(std::min(left, 1'000)));
      platform_.outbox().enqueue_many(transaction, batch);
    }
    const auto start = Steady::now();
    transaction.commit();
    while (handled_ < messages) std::this_thread::sleep_for(1ms);
    return messages / std::chrono::duration<double>(Steady::now() - start).count();
  }

 private:
  Platform& platform_;
  std::atomic<int> handled_ = 0;
};

struct Health {
  std::vector<double> live;
  std::vector<double> all;
  int failed = 0;

  void ask(std::uint16_t port) {
    for (auto& [path, times] : {std::pair{"/health/live", &live}, std::pair{"/health", &all}}) {
      const auto time = time_of(port, path);
      time < 0 ? void(++failed) : times->push_back(time);
    }
  }
};

double under_attack(Attacker& attacker, Drain& drain, Health& health, std::uint16_t port,
                    int messages) {
  attacker.command('a');
  std::atomic<bool> done = false;
  std::thread prober([&] {
    while (!done) {
      health.ask(port);
      std::this_thread::sleep_for(50ms);
    }
  });
  const auto rate = drain.run(messages);
  done = true;
  prober.join();
  attacker.command('e');
  return rate;
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  allow_many_files();
  Attacker attacker(arguments);
  auto platform =
      Platform::open(arguments.url, {.deploy_schema = true, .log_sink = null_log_sink()});
  Drain drain(platform);
  platform.start();
  Server server(platform, {.port = 0, .limits = {.max_connections_per_address = 4'000}});
  server.start();
  attacker.aim_at(server.port());
  drain.run(arguments.messages);  // warms up
  const auto before = memory_mib("VmRSS");
  std::vector<double> calm;
  std::vector<double> attacked;
  Health health;
  for (int round = 0; round < arguments.rounds; ++round) {
    calm.push_back(drain.run(arguments.messages));
    attacked.push_back(under_attack(attacker, drain, health, server.port(), arguments.messages));
  }
  std::printf("slow connections %d, event streams %d\n", arguments.slow, arguments.streams);
  std::printf("drain            %8.0f messages/s\n", at(calm, 0.5));
  std::printf("drain, attacked  %8.0f messages/s  ratio %.2f\n", at(attacked, 0.5),
              at(attacked, 0.5) / at(calm, 0.5));
  std::printf("/health/live     %8.1f ms median, %.1f ms p99\n", at(health.live, 0.5),
              at(health.live, 0.99));
  std::printf("/health          %8.1f ms median, %.1f ms p99\n", at(health.all, 0.5),
              at(health.all, 0.99));
  std::printf("health failed    %8d of %zu\n", health.failed,
              health.live.size() + health.all.size() + static_cast<std::size_t>(health.failed));
  std::printf("memory           %8.0f MiB before, %.0f MiB at most\n", before, memory_mib("VmHWM"));
  server.stop();
  platform.stop();
}
