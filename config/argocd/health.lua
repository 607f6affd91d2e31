-- Health of the three kinds of sandbox.iii.dev, for Argo CD. It sees the object as
-- obj and answers with a status and a message. Of Lua's libraries only the basic
-- functions, table and a part of os are there.

local function condition(kind)
  for _, c in ipairs((obj.status or {}).conditions or {}) do
    if c.type == kind then
      return c
    end
  end
  return {}
end

local function health(status, message)
  return { status = status, message = message }
end

local ready, stalled = condition("Ready"), condition("Stalled")

if obj.metadata.deletionTimestamp ~= nil then
  return health("Progressing", "the object is being deleted")
end
-- What was said of a former generation says nothing of this one.
if ready.observedGeneration ~= obj.metadata.generation then
  return health("Progressing", "the operator has not looked at this generation yet")
end
if stalled.status == "True" then
  return health("Degraded", stalled.message)
end
if ready.status ~= "True" then
  return health("Progressing", ready.message)
end
if ready.reason == "Suspended" then
  return health("Suspended", ready.message)
end
return health("Healthy", ready.message)
