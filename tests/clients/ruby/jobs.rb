# The jobs that test_sidekiq.rb sends to a worker. ESKER_PORT is the server's port.

require "sidekiq"

SERVER = { url: "redis://127.0.0.1:#{ENV.fetch('ESKER_PORT')}/9" }
Sidekiq.configure_client { |config| config.redis = SERVER }
Sidekiq.configure_server { |config| config.redis = SERVER }

class Add
  include Sidekiq::Worker

  def perform(a, b)
    Sidekiq.redis { |r| r.rpush("sums", a + b) }
  end
end

class Fail
  include Sidekiq::Worker
  sidekiq_options retry: 3

  def perform
    raise "as wanted"
  end
end
