def handler(payload, context):
    return {"greeting": f"Good day, {payload.get('name', 'stranger')}"}
